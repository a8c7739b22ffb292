"""A World Model in small worlds with known answers: V keeps a ball of two by two pixels, M foresees where it flies, C
plays better than chance."""

import pytest
import torch

from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.world_model.config import WorldConfig
from megareward.world_model.controller import EvolutionConfig, evolve, play
from megareward.world_model.learner import WorldModel

pytestmark = pytest.mark.learning

CPU = torch.device("cpu")
N, T = 32, 64
GAME = PongConfig(opponent=False)
"""Against a wall: between two misses nothing happens by chance."""


def random_play(rollouts: int, seed: int):
    """(frames, actions, first, ends, ball) of so many rollouts; `ball` are the pixels of the ball."""
    env, draws = make_mini("mini-pong", N, GAME), torch.Generator().manual_seed(seed)
    step = env.reset(seed)
    for _ in range(rollouts):
        rows = [(step.frames, step.first, step.terminated | step.truncated, env.object_masks()["ball"])]
        actions = []
        for _ in range(T):
            actions.append(torch.randint(env.n_actions, (N,), generator=draws))
            step = env.step(actions[-1])
            rows.append((step.frames, step.first, step.terminated | step.truncated, env.object_masks()["ball"]))
        frames, first, ends, ball = (torch.stack(column) for column in zip(*rows, strict=True))
        yield frames, torch.stack(actions), first, ends, ball


@pytest.fixture(scope="module")
def model() -> WorldModel:
    """After 37,000 frames of random play; 45 seconds of one core."""
    model = WorldModel(WorldConfig(v_passes=3, m_passes=3), (32, 32), 3, CPU, seed=0)
    nothing = (torch.zeros(N, model.hidden), torch.zeros(N, model.hidden))
    for frames, actions, first, ends, _ in random_play(18, seed=1):
        model.update(frames, actions, first, ends, nothing)
    return model


def test_v_keeps_a_ball_of_two_by_two_pixels(model):
    [(frames, _, _, _, ball)] = random_play(1, seed=2)
    assert int(ball[0, 0].sum()) == 4
    drawn = model.vision.decode(model.codes(frames.flatten(0, 1))[0]).view_as(frames).float()
    inside = (drawn * ball).sum((-2, -1)) / ball.sum((-2, -1)).clamp(min=1)
    around = (drawn * ~ball).sum((-2, -1)) / (~ball).sum((-2, -1))
    assert float(inside.mean()) > 150  # of 255
    assert float(around.mean()) < 40
    assert float((inside > 100).float().mean()) > 0.85  # in nearly every frame


def test_m_foresees_the_next_frame_better_than_the_last_one_does(model):
    [(frames, actions, first, _, _)] = random_play(1, seed=2)
    z = model.codes(frames.flatten(0, 1))[0].view(T + 1, N, -1)
    state = (torch.zeros(N, model.hidden), torch.zeros(N, model.hidden))
    foreseen, copied = [], []
    with torch.no_grad():
        for t in range(T):
            state = tuple(s.masked_fill(first[t][:, None], 0.0) for s in state)
            state = model.memory.advance(z[t], actions[t], state)
            expected = model.memory.foresee(state[0], z[t])[0].expected()
            moved = (frames[t] != frames[t + 1]) & ~first[t + 1][:, None, None]
            for errors, code in ((foreseen, expected), (copied, z[t])):
                away = (model.vision.decode(code).float() - frames[t + 1].float()).abs()
                errors.append(away[moved])
    foreseen, copied = (float(torch.cat(errors).mean()) for errors in (foreseen, copied))
    assert foreseen < 0.7 * copied


def test_a_controller_found_by_cma_es_beats_random_play(model):
    pytest.importorskip("cma")

    def make(n: int):
        return make_mini("mini-pong", n, GAME)

    config = EvolutionConfig(generations=8, population=24, games=4, steps=150)
    weights = evolve(model, make, config, lambda *numbers: None)
    env = make(64)
    found, at_random = (play(model, env, w, 300, seed=77) for w in (weights.expand(64, -1), None))
    error = float((found.var() / 64 + at_random.var() / 64).sqrt())
    assert float(found.mean() - at_random.mean()) > 4 * error
