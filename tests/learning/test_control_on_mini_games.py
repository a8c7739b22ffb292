"""What the control models find after a few minutes of random play, against worlds whose truth is known.

One test per game, since training is what takes the time.
"""

import pytest
import torch
from mini_control import auroc, follow_the_ball, learn, random_play, watch

from megareward.control.models import ControlModels

pytestmark = pytest.mark.learning

AWAY = 24
"""mini-pong: the ball has left the paddle's column of cells when its right edge is left of this."""


def test_on_mini_pong_direct_control_is_true_and_g_passes_from_the_paddle_to_the_ball():
    """Against the wall, where a game has one ball: it is under control from the first return on, and not before."""
    models = learn("mini-pong", n_updates=20, opponent=False)
    assert direct_auroc(models) >= 0.95
    touching, far = attention_of_the_ball_to_the_paddle(models)
    assert touching.mean() >= 0.7
    assert far.mean() <= 0.05
    before, after = g_of_the_ball(models)
    assert auroc(after, before) >= 0.9


def direct_auroc(models: ControlModels) -> float:
    """Against the cells in which another action would have made a difference."""
    scores = []
    for moment in watch(models, "mini-pong", 40, random_play, truth=True, opponent=False):
        assert moment.controlled is not None
        for n in moment.real.nonzero().flatten():
            truth = moment.controlled[n]
            if truth.any():
                direct = moment.control.direct[n]
                scores.append(auroc(direct[truth], direct[~truth]))
    return sum(scores) / len(scores)


def attention_of_the_ball_to_the_paddle(models: ControlModels) -> tuple[torch.Tensor, torch.Tensor]:
    """How much the ball's cell relies on the cells that showed the paddle: as they touch, and far apart."""
    touching, far = [], []
    for moment in watch(models, "mini-pong", 120, follow_the_ball, opponent=False):
        relation, everyone = moment.control.relation, torch.arange(len(moment.real))
        assert relation is not None
        ball = moment.now["ball"].argmax(1)  # the cell that shows most of it
        attention = (relation[everyone, ball] * (moment.before["paddle"] > 0)).sum(-1)
        returned = (moment.game_before.ball_vx > 0) & (moment.game.ball_vx < 0) & moment.real
        touching.append(attention[returned])
        far.append(attention[(moment.game.ball_x < 16) & moment.real])
    return torch.cat(touching), torch.cat(far)


def g_of_the_ball(models: ControlModels) -> tuple[torch.Tensor, torch.Tensor]:
    """g where the ball is, away from the paddle: before the paddle has ever hit it, and after."""
    hit = torch.zeros(48, dtype=torch.bool)
    before, after = [], []
    for moment in watch(models, "mini-pong", 120, follow_the_ball, opponent=False):
        hit |= (moment.game_before.ball_vx > 0) & (moment.game.ball_vx < 0)
        hit &= moment.real
        g = moment.control.g[torch.arange(48), moment.now["ball"].argmax(1)]
        away = (moment.game.ball_x + 2 <= AWAY) & moment.real
        before.append(g[away & ~hit])
        after.append(g[away & hit])
    return torch.cat(before), torch.cat(after)


def test_on_mini_demon_g_reaches_the_bullet_and_then_the_enemy_that_it_hits():
    models = learn("mini-demon", n_updates=20)
    visited = torch.zeros(48, 16, dtype=torch.bool)
    row = torch.arange(16) // 4
    bullet, empty, spared, burning = [], [], [], []
    for moment in watch(models, "mini-demon", 150, random_play):
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
