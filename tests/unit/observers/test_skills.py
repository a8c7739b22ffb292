"""The skill observer: codes are uniform, held, and drawn again at starts; in play they last for a whole game."""

import pytest
import torch

from megareward.errors import UsageError
from megareward.observers import build_observer
from megareward.observers.interface import Context, Seen
from megareward.observers.skills import SkillObserver
from megareward.rewards.settings import StoConfig
from megareward.world import World
from tests.unit.rewards.recordings import NoWaiting

N, K, HOLD = 5, 3, 4
CPU = torch.device("cpu")


def observer(n_envs: int = N, seed: int = 0, **options: bool) -> SkillObserver:
    world = World(n_envs, 2, (8, 8), CPU, seed)
    made = build_observer("skills", Context(world, None, None, StoConfig(n_skills=K, hold=HOLD), **options))
    assert isinstance(made, SkillObserver)
    return made


def look(own: SkillObserver, first: torch.Tensor, groups: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """One moment of all environments, in groups; (codes, drawn)."""
    seen = []
    for group, envs in enumerate(torch.arange(len(first)).chunk(groups)):
        own.prepare(group)
        stacks = torch.zeros(len(envs), 1, 8, 8, dtype=torch.uint8)
        seen.append(own.advance(Seen(stacks, torch.zeros(len(envs), dtype=torch.int64), first[envs], envs)))
    return tuple(torch.cat([fields[name] for fields in seen]) for name in ("skill", "skill_drawn"))


def moments(own: SkillObserver, number: int, starts: dict[int, int] = {}, groups: int = 1):  # noqa: B006
    """(number, N) codes and drawn; `starts`: moment -> environment whose episode opens there, beside all at 0."""
    rows = []
    for t in range(number):
        first = torch.full((len(own.skill),), t == 0)
        if t in starts:
            first[starts[t]] = True
        rows.append(look(own, first, groups))
    return tuple(torch.stack(x) for x in zip(*rows, strict=True))


def test_a_code_is_held_for_so_many_steps_and_drawn_anew_at_the_start_of_an_episode():
    skill, drawn = moments(observer(), 3 * HOLD, {6: 1})
    often = [t % HOLD == 0 for t in range(3 * HOLD)]
    for n in range(N):
        expected = often if n != 1 else [t in (0, 4, 6, 10) for t in range(3 * HOLD)]
        assert drawn[:, n].tolist() == expected
        changes = [t for t in range(1, 3 * HOLD) if skill[t, n] != skill[t - 1, n]]
        assert all(expected[t] for t in changes)


def test_codes_are_drawn_uniformly():
    skill, _ = moments(observer(n_envs=6000), 1)
    shares = torch.bincount(skill[0], minlength=K) / 6000
    assert (shares - 1 / K).abs().max() < 0.02


def test_groups_leave_no_trace():
    one, two = moments(observer(n_envs=6), 9, {5: 2}), moments(observer(n_envs=6), 9, {5: 2}, groups=3)
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])


def test_a_stop_leaves_no_trace():
    whole, stopped = observer(), observer()
    moments(whole, 6)
    moments(stopped, 6)
    after = observer(seed=9)
    after.load_running_state(stopped.running_state())
    no = torch.zeros(N, dtype=torch.bool)
    for _ in range(2 * HOLD):
        assert torch.equal(look(whole, no)[0], look(after, no)[0])


def test_who_only_plays_holds_a_code_for_a_whole_game_whatever_lives_it_takes():
    own = observer(learns=False)
    skill, drawn = moments(own, 5 * HOLD, {6: 1, 9: 2})  # two lives are lost, no game
    assert drawn[0].all()
    assert not drawn[1:].any()
    assert torch.equal(skill, skill[:1].expand_as(skill))
    own.new_game(3)
    no = torch.zeros(N, dtype=torch.bool)
    assert not look(own, no)[1].any()  # the last frame of the old game is still there
    first = no.clone()
    first[3] = True
    assert look(own, first)[1].tolist() == first.tolist()


def test_the_step_reads_nothing_back_from_the_device():
    own = observer()
    with NoWaiting():
        moments(own, 6)


@pytest.mark.parametrize("bad", [{"n_skills": 1}, {"hold": 0}])
def test_settings_that_make_no_sense_are_refused_by_name(bad):
    with pytest.raises(UsageError, match=f"--reward.{next(iter(bad)).replace('_', '-')} is"):
        StoConfig(**bad)
