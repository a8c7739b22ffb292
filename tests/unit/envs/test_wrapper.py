"""An environment around an environment: what it changes, and that it passes on everything else."""

from dataclasses import replace

import pytest
import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.make import make_env
from megareward.envs.mini import PongConfig
from megareward.envs.mini.games import make_mini
from megareward.envs.mini.hashed_rng import environment_keys, random_words
from megareward.envs.wrapper import EnvWrapper
from megareward.types import Tensor
from tests.small_envs import IdentityEnv

CPU = torch.device("cpu")
N, SIDE = 6, 5


class NoisyCorner(EnvWrapper):
    """Random grey levels in the top left corner; each environment has its own, whatever the others do."""

    def reset(self, seed: int) -> Step:
        self.key = environment_keys(seed, self.n_envs, self.device)
        self.clock = torch.zeros_like(self.key)
        return super().reset(seed)

    def change(self, step: Step, rows: slice) -> Step:
        words = random_words(self.key[rows], self.clock[rows], torch.arange(SIDE * SIDE))
        self.clock[rows] += 1
        frames = step.frames.clone()
        frames[:, :SIDE, :SIDE] = (words >> 24).to(torch.uint8).view(-1, SIDE, SIDE)
        return replace(step, frames=frames)

    def own_state(self) -> dict[str, Tensor]:
        return {"key": self.key.clone(), "clock": self.clock.clone()}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        self.key, self.clock = state["key"].clone(), state["clock"].clone()


def pong() -> BatchedEnv:
    return make_mini("mini-pong", N, PongConfig(points=1, max_steps=9))


def play(env: BatchedEnv, actions: list[Tensor]) -> list[Step]:
    steps = []
    for chosen in actions:
        env.send(chosen)
        steps.append(env.recv())
    return steps


def random_actions(env: BatchedEnv, steps: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(env.n_actions, (env.n_envs,), generator=generator) for _ in range(steps)]


def assert_same(one: Step, two: Step) -> None:
    for name, tensor in vars(one).items():
        assert torch.equal(tensor, getattr(two, name)), name


def test_a_wrapper_that_changes_nothing_cannot_be_noticed():
    inner, wrapped = pong(), EnvWrapper(pong())
    for name in ("n_envs", "n_groups", "n_actions", "action_names", "frame_shape", "frame_skip", "device"):
        assert getattr(wrapped, name) == getattr(inner, name)
    assert_same(inner.reset(4), wrapped.reset(4))
    actions = random_actions(inner, 20)
    for one, two in zip(play(inner, actions), play(wrapped, actions), strict=True):
        assert_same(one, two)
    assert wrapped.state_dict().keys() == inner.state_dict().keys()


def test_noise_covers_the_corner_only_and_differs_between_environments_steps_and_seeds():
    inner, noisy = pong(), NoisyCorner(pong())
    inner.reset(4)
    corners = [noisy.reset(4).frames[:, :SIDE, :SIDE]]
    actions = random_actions(inner, 20)
    for one, two in zip(play(inner, actions), play(noisy, actions), strict=True):
        corners.append(two.frames[:, :SIDE, :SIDE])
        frames = one.frames.clone()
        frames[:, :SIDE, :SIDE] = corners[-1]
        assert_same(replace(one, frames=frames), two)
    corners.append(noisy.reset(5).frames[:, :SIDE, :SIDE])
    assert len(torch.cat(corners).flatten(1).unique(dim=0)) == 22 * N


def test_the_same_seed_gives_the_same_noise():
    one, two = NoisyCorner(pong()), NoisyCorner(pong())
    actions = random_actions(one, 10)
    one.reset(3)
    play(one, actions)
    assert_same(one.reset(4), two.reset(4))
    for a, b in zip(play(one, actions), play(two, actions), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("n_groups", [2, 3])
def test_every_environment_shows_the_same_noise_in_groups_of_any_size(n_groups):
    def atari(groups: int) -> BatchedEnv:
        config = AtariConfig(threads=1, groups=groups, px=42, max_frames=40)
        return NoisyCorner(make_env("breakout", N, config, hide_score=True, device=CPU, in_groups=True))

    together, apart = atari(1), atari(n_groups)
    assert (together.n_groups, apart.n_groups) == (1, n_groups)
    n = N // n_groups
    assert_same(together.reset(2), apart.reset(2))
    for chosen in random_actions(together, 15):
        [whole] = play(together, [chosen])
        for group in chosen.split(n):  # all groups are under way at once
            apart.send(group)
        for g in range(n_groups):
            own = Step(**{name: tensor[g * n : (g + 1) * n] for name, tensor in vars(whole).items()})
            assert_same(own, apart.recv())
    apart.send(chosen[:n])
    apart.recv()
    assert_same(together.reset(2), apart.reset(2))  # in the middle of a turn: the first group comes first again
    [whole] = play(together, [chosen])
    apart.send(chosen[:n])
    assert torch.equal(apart.recv().frames, whole.frames[:n])
    together.close()
    apart.close()


@pytest.mark.parametrize("wrap", [NoisyCorner, lambda env: NoisyCorner(NoisyCorner(env))], ids=["one", "two"])
def test_a_restored_wrapper_goes_on_exactly(wrap):
    env, restored = wrap(pong()), wrap(pong())
    actions = random_actions(env, 16)
    env.reset(4)
    play(env, actions[:7])
    state = env.state_dict()
    expected = play(env, actions[7:])
    restored.reset(9)
    restored.load_state_dict(state)
    for one, two in zip(expected, play(restored, actions[7:]), strict=True):
        assert_same(one, two)


def test_its_own_tensors_are_saved_beside_those_of_the_wrapped_environment():
    env = NoisyCorner(pong())
    env.reset(4)
    assert env.state_dict().keys() == env.env.state_dict().keys() | {"wrapper.key", "wrapper.clock"}
    around = NoisyCorner(env)
    around.reset(4)
    assert around.state_dict().keys() >= env.state_dict().keys() | {"wrapper.wrapper.key", "wrapper.wrapper.clock"}


def test_where_the_wrapped_environment_has_no_state_there_is_none():
    env = NoisyCorner(IdentityEnv(N))
    env.reset(1)
    assert env.state_dict() is None
