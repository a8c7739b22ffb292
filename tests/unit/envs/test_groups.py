"""Groups that take turns show what one large batch shows."""

import pytest
import torch

from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig
from megareward.envs.groups import Groups
from megareward.envs.interface import Step
from megareward.envs.make import make_env
from megareward.errors import UsageError
from tests.small_envs import IdentityEnv

N = 6


def atari(groups: int) -> Atari | Groups:
    config = AtariConfig(threads=1, groups=groups, px=42, max_frames=80)
    return make_env("breakout", N, config, hide_score=True, device=torch.device("cpu"), in_groups=True)


def assert_same(one: Step, two: Step) -> None:
    for name, tensor in vars(one).items():
        assert torch.equal(tensor, getattr(two, name)), name


@pytest.mark.parametrize("n_groups", [2, 3])
def test_every_environment_shows_the_same_in_groups_of_any_size(n_groups):
    """Some thirty steps, over the time limit and into new games; the first groups are ahead of the others by a step."""
    together, apart = atari(1), atari(n_groups)
    n = N // n_groups
    assert_same(together.reset(3), apart.reset(3))
    generator = torch.Generator().manual_seed(1)
    resets = 0
    actions = [torch.randint(together.n_actions, (N,), generator=generator) for _ in range(30)]
    for chosen in actions[0].split(n):
        apart.send(chosen)
    for t in range(30):
        together.send(actions[t])
        whole = together.recv()
        resets += int(whole.first.sum())
        for g in range(n_groups):
            step = apart.recv()
            if t + 1 < 30:
                apart.send(actions[t + 1].split(n)[g])
            assert_same(Step(**{name: tensor[g * n : (g + 1) * n] for name, tensor in vars(whole).items()}), step)
    assert resets >= N
    together.close()
    apart.close()


def test_another_run_begins_with_the_first_group_again():
    groups = Groups([IdentityEnv(2), IdentityEnv(2)])
    opened = groups.reset(5)
    assert opened.frames.shape[0] == groups.n_envs == 4
    groups.send(torch.zeros(2, dtype=torch.int64))
    groups.recv()
    assert torch.equal(groups.reset(5).frames, opened.frames)
    groups.send(torch.tensor([1, 1]))
    assert groups.groups[0].actions.tolist() == [1, 1]


def test_groups_are_for_who_asks_and_must_be_of_one_size():
    cpu = torch.device("cpu")
    alone = make_env("pong", 2, AtariConfig(groups=2, threads=1), hide_score=False, device=cpu)
    assert isinstance(alone, Atari)
    with pytest.raises(UsageError, match="5 environments cannot form 2 groups"):
        make_env("pong", 5, AtariConfig(groups=2), hide_score=False, device=cpu, in_groups=True)
    with pytest.raises(UsageError, match=r"--env.groups is 0; it must be 1"):
        AtariConfig(groups=0)
