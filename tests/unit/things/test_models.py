"""Who relied on whom: the relation as loops, drawings of a part, and a world whose answer is known."""

from dataclasses import replace

import pytest
import torch

from megareward.control.config import ControlConfig, RtmConfig, ThingsConfig, mini, things
from megareward.errors import UsageError
from megareward.observers.things import ThingTracker
from megareward.things.learner import ThingLearner
from megareward.things.models import DOUBT, NOISE, ThingModels, grown
from megareward.things.sight import apart
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset

N, S, A, K = 3, 6, 4, 3


def config(**changes: object) -> ControlConfig:
    own = ControlConfig(H=2, W=2, rtm=RtmConfig(stack=K, local_features=5), things=ThingsConfig(S))
    return replace(own, **changes)  # type: ignore[arg-type]


def models(size: int = 24, seed: int = 0) -> ThingModels:
    own = ThingModels(config(), (size, size), A, seed=seed)
    own.background.observe(torch.zeros(1, size, size, dtype=torch.uint8))
    with torch.no_grad():  # untrained drawings differ too little for anybody to be better
        for parameter in own.draws.parameters():
            parameter.mul_(2)
    return own


def a_crowd(size: int, seed: int) -> torch.Tensor:
    """(N, K + 1, size, size): things of a few pixels that move about, some of which come and go."""
    draws = torch.Generator().manual_seed(seed)
    frames = torch.zeros(N, K + 1, size, size, dtype=torch.uint8)
    for n in range(N):
        for thing in range(5):
            top, left, down, right = torch.randint(0, size - 6, (4,), generator=draws).tolist()
            height, width, begins, ends = torch.randint(0, 4, (4,), generator=draws).tolist()
            for f in range(K + 1):
                y, x = top + (down % 3 - 1) * f, left + (right % 3 - 1) * f
                if begins // 2 <= f and f < K + 1 - ends // 3 and min(y, x) >= 0:
                    frames[n, f, y : y + 2 + height, x : x + 2 + width] = 60 + 40 * thing
    return frames


def relation_as_loops(own: ThingModels, frames: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    """Thing by thing, each drawing of the whole screen, as the text of the module has it."""
    seen = own.see(frames[:, :-1], frames[:, -1])
    boxes, n_things = seen.things.boxes, seen.now.shape[1]
    relation = torch.zeros(N, n_things, n_things)

    def likelihood(n: int, to: int, *shown: int) -> float:
        n_, things = torch.tensor([n]), [torch.tensor([thing]) for thing in shown]
        drawn = own.draws(seen.shown(n_, *things), own.scenery, actions[n_])[0]
        error = (drawn - seen.frames[n, -1])[seen.now[n, to]].double() / NOISE
        return -float(error.square().sum()) / 2

    for n in range(N):
        was, now = seen.before[n].any((-2, -1)), seen.now[n].any((-2, -1))
        for to in range(n_things):
            if not now[to]:
                continue
            blank = -float((seen.frames[n, -1][seen.now[n, to]].double() / NOISE).square().sum()) / 2
            stays = bool(seen.things.goes_on[n, -1, to])
            if stays and torch.equal(seen.before[n, to], seen.now[n, to]):
                relation[n, to, to] = 1
                continue
            by_itself = max(likelihood(n, to, to), blank) if stays else blank
            likely = {-1: by_itself}
            for other in range(n_things):
                place = boxes[n, -2 if stays else -1, to]
                if not was[other] or (stays and other == to) or apart(place, boxes[n, -2, other]) > own.draws.reach:
                    continue
                if not stays:
                    likely[other] = likelihood(n, to, other) - DOUBT
                elif by_itself < -DOUBT:
                    likely[other] = likelihood(n, to, other, to) - DOUBT
            weights = torch.tensor(list(likely.values()), dtype=torch.float64).softmax(0).tolist()
            for other, weight in zip(likely, weights, strict=True):
                if other >= 0:
                    relation[n, to, other] += weight
                elif stays:
                    relation[n, to, to] += weight
    return relation


@pytest.mark.parametrize("size", [24, 84])
@pytest.mark.parametrize("seed", range(3))
def test_the_relation_as_loops_with_drawings_of_the_whole_screen(size, seed):
    own, frames, actions = models(size), a_crowd(size, seed), torch.tensor([0, 3, 1])
    assert own.draws.block == (2 if size == 84 else 1)
    with torch.no_grad():
        relation = own.attend(frames[:, :-1], actions, frames[:, -1]).relation
        slow = relation_as_loops(own, frames, actions)
    torch.testing.assert_close(relation, slow, atol=2e-3, rtol=1e-3)
    assert (relation.sum(-1) <= 1 + 1e-5).all()
    assert (relation.diagonal(dim1=1, dim2=2) < 0.999).any()


@pytest.mark.parametrize(("sight", "n_things"), [("level", 3), ("contrast", 2)])
def test_by_contrast_what_touches_is_one_thing_but_for_what_is_darker(sight, n_things):
    own = models()
    own.config = replace(own.config, things=replace(own.config.things, sight=sight))
    own.background.observe(torch.full((50, 24, 24), 100, dtype=torch.uint8))
    frames = torch.full((N, K + 1, 24, 24), 100, dtype=torch.uint8)
    frames[:, :, 4:8, 4:8], frames[:, :, 5:9, 8:12], frames[:, :, 8:12, 4:8] = 160, 250, 20
    seen = own.see(frames[:, :-1], frames[:, -1])
    masks = [mask for mask in seen.now[0] if mask.any()]
    assert len(masks) == n_things
    assert torch.stack(masks).any(0).equal(frames[0, -1] != 100)
    assert sum(mask.sum().item() for mask in masks) == 48  # no pixel belongs to two


def test_grown_is_all_that_is_within_reach_as_loops():
    mask = torch.rand(2, 9, 14, generator=torch.Generator().manual_seed(0)) < 0.03
    assert mask.any()
    for reach in (0, 1, 3):
        near = grown(mask, reach)
        for m, y, x in torch.cartesian_prod(torch.arange(2), torch.arange(9), torch.arange(14)).tolist():
            block = mask[m, max(y - reach, 0) : y + reach + 1, max(x - reach, 0) : x + reach + 1]
            assert near[m, y, x] == float(block.any())


def test_what_was_found_before_need_not_be_found_again():
    own, frames, actions = models(), a_crowd(24, 1), torch.tensor([0, 3, 1])
    anew = own.attend(frames[:, :-1], actions, frames[:, -1])
    kept = own.attend(frames[:, :-1], actions, frames[:, -1], own.find(frames))
    assert all(torch.equal(a, b) for a, b in zip(anew, kept, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_slots_that_no_frame_needs_change_nothing(seed, monkeypatch):
    own, frames, actions = models(), a_crowd(24, seed), torch.tensor([0, 3, 1])
    few = own.attend(frames[:, :-1], actions, frames[:, -1])
    used = few.now.shape[1]
    monkeypatch.setattr("megareward.things.models.most_in_a_frame", lambda found: S)
    every = own.attend(frames[:, :-1], actions, frames[:, -1])
    assert used < S == every.now.shape[1]
    assert not any(part[:, used:].any() for part in every)
    for a, b in zip(few, every, strict=True):
        b = b[:, :used, :used] if a.shape == few.relation.shape else b[:, :used]
        torch.testing.assert_close(a, b)


def test_an_untrained_guess_tells_nothing_and_an_unknown_background_shows_nothing():
    own, frames, actions = models(), a_crowd(24, 2), torch.tensor([0, 3, 1])
    attention = own.attend(frames[:, :-1], actions, frames[:, -1])
    assert attention.now.any()
    assert (attention.direct == 0).all()
    blind = ThingModels(config(), (24, 24), A)
    attention = blind.attend(frames[:, :-1], actions, frames[:, -1])
    assert not attention.now.any()
    assert (attention.relation == 0).all()


def test_settings_that_things_cannot_have():
    with pytest.raises(UsageError, match="slots"):
        ThingsConfig(-1)
    for form in ("positive", "record", "spread"):
        with pytest.raises(UsageError, match=form):
            config(latent=replace(config().latent, reward=form))
    with pytest.raises(UsageError, match=r"control\.latent\.no-hold"):
        config(latent=replace(config().latent, hold=True))
    assert with_preset(TrainConfig("mega", "mini-pong"), "released,things").control.things.slots
    with pytest.raises(UsageError, match="blocks"):
        ThingModels(config(H=1, W=1), (85, 85), A)


# A world with a known answer ------------------------------------------------------------------------------------------

SIDE = 24
LEFT, STAY, RIGHT = range(3)


class Table:
    """A bat of 6 pixels is moved along the bottom. A ball bounces between the top and the bat; a miss puts it back to
    the top. A car crosses above the bat, close by, whatever anybody does."""

    BAT, BALL, CAR = 120, 240, 180

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.draws = n, torch.Generator().manual_seed(seed)
        self.bat, self.ball_x, self.ball_y = (self.random(18), self.random(22), torch.zeros(n, dtype=torch.long))
        self.down, self.car = torch.ones(n, dtype=torch.long), self.random(20)

    def random(self, below: int) -> torch.Tensor:
        return torch.randint(0, below, (self.n,), generator=self.draws)

    def step(self, actions: torch.Tensor) -> torch.Tensor:
        """Returns whether the ball was hit."""
        self.bat = (self.bat + 2 * (actions - 1)).clamp(0, SIDE - 6)
        self.car = (self.car + 1) % 20
        self.ball_y += self.down
        at_bat = (self.ball_y == 18) & (self.down > 0)
        hit = at_bat & (self.ball_x + 1 >= self.bat) & (self.ball_x < self.bat + 6)
        self.down = torch.where(hit, -1, torch.where(self.ball_y == 0, 1, self.down))
        missed = self.ball_y > 21
        self.ball_y = torch.where(missed, 0, self.ball_y)
        self.ball_x = torch.where(missed, self.random(22), self.ball_x)
        return hit

    def frames(self) -> torch.Tensor:
        frames = torch.zeros(self.n, SIDE, SIDE, dtype=torch.uint8)
        for n in range(self.n):
            frames[n, 21:23, self.bat[n] : self.bat[n] + 6] = self.BAT
            frames[n, 16:18, self.car[n] : self.car[n] + 4] = self.CAR
            frames[n, self.ball_y[n] : self.ball_y[n] + 2, self.ball_x[n] : self.ball_x[n] + 2] = self.BALL
        return frames


def play(table: Table, T: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    frames, actions, hits = [table.frames()], [], []
    for _ in range(T):
        actions.append(torch.randint(0, 3, (table.n,), generator=table.draws))
        hits.append(table.step(actions[-1]))
        frames.append(table.frames())
    return torch.stack(frames), torch.stack(actions), torch.stack(hits)


def test_a_bat_controls_the_ball_it_hits_and_no_car_that_passes():
    own = things(mini(ControlConfig(H=4, W=4)))
    learnt = ThingModels(own, (SIDE, SIDE), 3)
    learner, table = ThingLearner(learnt), Table(16, 0)
    losses: dict[str, torch.Tensor] = {}
    for _ in range(24):
        frames, actions, _ = play(table, 64)
        losses = learner.update(frames, actions, torch.zeros(len(frames), 16, dtype=torch.bool))
    assert losses["things/guess_loss"] < 0.9  # of 1.1; only the bat tells
    n, T = 32, 60
    tracker, rows = ThingTracker(learnt, n), torch.arange(n)
    frames, actions, hits = play(Table(n, 1), T)
    g = {name: torch.zeros(T + 1, n) for name in ("bat", "ball", "car")}
    for t in range(K, T + 1):
        stack = frames[t - K + 1 : t + 1].transpose(0, 1)
        tracker.step(stack, actions[t - 1], torch.tensor(t == K).expand(n), rows)
        for name, level in (("bat", Table.BAT), ("ball", Table.BALL), ("car", Table.CAR)):
            g[name][t] = (tracker.paint * (frames[t] == level)).amax((1, 2))
    after, never = [], []
    for hit in hits[:-3].nonzero().tolist():  # hits[t] leads to frame t + 1; a frame later the ball is on its way up
        after.append(g["ball"][hit[0] + 3, hit[1]])
    for env in range(n):
        first = hits[:, env].nonzero()[0].item() if hits[:, env].any() else T
        never.append(g["ball"][: first + 2, env])
    assert len(after) > 10
    assert g["bat"][K + 1 :].mean() > 0.8
    assert torch.stack(after).mean() > 0.5
    assert torch.cat(never).mean() < 0.05
    assert g["car"].mean() < 0.05
