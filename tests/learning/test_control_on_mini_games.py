"""What the control models find after a few minutes of random play, against worlds whose truth is known."""

import pytest
import torch
from mini_control import auroc, follow_the_ball, learn, random_play, watch

from megareward.control.models import ControlModels

pytestmark = pytest.mark.learning

AWAY = 24
"""mini-pong: the ball has left the paddle's column of cells when its right edge is left of this."""


@pytest.fixture(scope="module")
def pong() -> ControlModels:
    """Against the wall, where a game has one ball: it is under control from the first return on, and not before."""
    return learn("mini-pong", n_updates=55, opponent=False)


@pytest.fixture(scope="module")
def demon() -> ControlModels:
    return learn("mini-demon", n_updates=70)


def test_direct_control_is_where_another_action_would_have_made_a_difference(pong):
    scores = []
    for moment in watch(pong, "mini-pong", 40, random_play, truth=True, opponent=False):
        assert moment.controlled is not None
        for n in moment.real.nonzero().flatten():
            truth = moment.controlled[n]
            if truth.any():
                direct = moment.control.direct[n]
                scores.append(auroc(direct[truth], direct[~truth]))
    assert sum(scores) / len(scores) >= 0.95


def test_the_balls_cell_attends_to_the_paddles_when_they_touch_and_only_then(pong):
    touching, far = [], []
    for moment in watch(pong, "mini-pong", 120, follow_the_ball, opponent=False):
        relation, everyone = moment.control.relation, torch.arange(len(moment.real))
        assert relation is not None
        ball = moment.now["ball"].argmax(1)  # the cell that shows most of it
        attention = (relation[everyone, ball] * (moment.before["paddle"] > 0)).sum(-1)
        returned = (moment.game_before.ball_vx > 0) & (moment.game.ball_vx < 0) & moment.real
        touching.append(attention[returned])
        far.append(attention[(moment.game.ball_x < 16) & moment.real])
    assert torch.cat(touching).mean() >= 0.6
    assert torch.cat(far).mean() <= 0.05


def test_g_reaches_the_ball_only_after_the_paddle_has_hit_it(pong):
    hit = torch.zeros(48, dtype=torch.bool)
    before, after = [], []
    for moment in watch(pong, "mini-pong", 120, follow_the_ball, opponent=False):
        hit |= (moment.game_before.ball_vx > 0) & (moment.game.ball_vx < 0)
        hit &= moment.real
        g = moment.control.g[torch.arange(48), moment.now["ball"].argmax(1)]
        away = (moment.game.ball_x + 2 <= AWAY) & moment.real
        before.append(g[away & ~hit])
        after.append(g[away & hit])
    assert auroc(torch.cat(after), torch.cat(before)) >= 0.85


def test_g_reaches_the_bullet_and_then_the_enemy_that_it_hits(demon):
    visited = torch.zeros(48, 16, dtype=torch.bool)
    row = torch.arange(16) // 4
    bullet, empty, spared, burning = [], [], [], []
    for moment in watch(demon, "mini-demon", 150, random_play):
        g, real, now = moment.control.g, moment.real[:, None], moment.now
        visited = (visited & real) | (now["bullet"] > 0) | (now["explosion"] > 0)
        bullet.append(g[(now["bullet"] > 0) & (row < 3) & real])
        empty.append(g[~visited & (row < 3) & real])
        # Nothing that the gun did has come near this enemy yet: both upper rows are as the game began.
        reached = (visited & (row < 2)).any(1, keepdim=True)
        spared.append(g[(now["enemy"] > 0) & ~reached & real])
        burning.append(g[(now["explosion"] > 0) & real])
    assert auroc(torch.cat(bullet)[:3000], torch.cat(empty)[:3000]) >= 0.95
    assert auroc(torch.cat(burning)[:3000], torch.cat(spared)[:3000]) >= 0.9
