"""Levels: who picks which code and when, in whose time; and what teaches the managers."""

import torch

from megareward.hierarchy.levels import Levels
from megareward.hierarchy.manager import Decisions, Manager, own_time_gae
from megareward.observers import build_observer
from megareward.observers.interface import Context, Seen
from megareward.rewards.settings import DivConfig
from megareward.rollout import Rollout
from megareward.world import World
from tests.unit.rewards.recordings import NoWaiting, assert_equal

N, K, SHAPE = 4, 3, (16, 18)
HOLDS, SPANS = (2, 3, 2), (2, 6, 12)
CPU = torch.device("cpu")


def levels(seed: int = 0, n_envs: int = N, **options: bool) -> Levels:
    world = World(n_envs, 2, SHAPE, CPU, seed)
    made = build_observer("levels", Context(world, None, None, DivConfig(n_skills=K, holds=HOLDS), **options))
    assert isinstance(made, Levels)
    return made


def frames(number: int, n_envs: int = N) -> torch.Tensor:
    random = torch.Generator().manual_seed(3)
    return torch.randint(256, (number, n_envs, 1, *SHAPE), dtype=torch.uint8, generator=random)


def look(own: Levels, stacks: torch.Tensor, first: torch.Tensor, groups: int = 1) -> dict[str, torch.Tensor]:
    seen = []
    for group, envs in enumerate(torch.arange(len(first)).chunk(groups)):
        own.prepare(group)
        seen.append(own.advance(Seen(stacks[envs], torch.zeros(len(envs), dtype=torch.int64), first[envs], envs)))
    return {name: torch.cat([fields[name] for fields in seen]) for name in seen[0]}


def played(own: Levels, stacks: torch.Tensor, starts: dict[int, int], groups: int = 1) -> dict[str, torch.Tensor]:
    """Every field over time; `starts`: moment -> environment whose episode opens there, beside all at 0."""
    rows = []
    for t, now in enumerate(stacks):
        first = torch.full((len(now),), t == 0)
        if t in starts:
            first[starts[t]] = True
        rows.append(look(own, now, first, groups))
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def test_every_level_holds_its_code_in_its_own_time_and_all_begin_anew_with_an_episode():
    shown = frames(30)
    fields = played(levels(), shown, {9: 1})
    assert {f.name for f in levels().fields} == fields.keys()
    for name, span in zip(("skill", "skill_1", "skill_2"), SPANS, strict=True):
        for n in range(N):
            code, start = None, None
            for t in range(30):
                age = t - 9 if n == 1 and t >= 9 else t
                assert bool(fields[f"{name}_drawn"][t, n]) == (age % span == 0)
                if age % span == 0:
                    code, start = fields[name][t, n], shown[t, n, 0]
                assert fields[name][t, n] == code
                assert torch.equal(fields[f"{name}_start"][t, n], start)


def test_a_manager_picks_the_code_below_by_the_frame_and_its_own_code():
    own, shown = levels(), frames(1)
    fields = look(own, shown[0], torch.ones(N, dtype=torch.bool))
    manager = own.upper[0].manager
    logits, values = manager.policy(shown[0], skill=fields["skill_1"])
    chosen = logits.log_softmax(-1).gather(1, fields["skill"][:, None])[:, 0]
    torch.testing.assert_close(fields["skill_log_prob"], chosen.detach())
    torch.testing.assert_close(fields["skill_value"], values[:, 0].detach())
    with torch.no_grad():
        manager.policy.action_head.bias[2] = 50.0
    assert look(own, shown[0], torch.ones(N, dtype=torch.bool))["skill"].tolist() == [2] * N


def test_groups_a_stop_and_the_device_leave_no_trace():
    shown, no = frames(14), torch.zeros(N, dtype=torch.bool)
    whole = levels()
    with NoWaiting():
        one = played(whole, shown, {5: 2})
    two = played(levels(), shown, {5: 2}, groups=2)
    for name, values in one.items():
        torch.testing.assert_close(values, two[name])
    after = levels(seed=9)
    after.load_state_dict(whole.state_dict())
    after.load_running_state(whole.running_state())
    for now in shown:
        assert_equal(look(whole, now, no), look(after, now, no))


# What a manager earns -------------------------------------------------------------------------------------------------

T, DISCOUNT, LAMBDA = 11, 0.9, 0.8


def slowly(rewards, values, decided, cut):
    """For every decision: the sum of discounted errors of the decisions from it on, until a cut, written out."""
    out = torch.zeros(T, N, dtype=rewards.dtype)
    for n in range(N):
        for t in range(T):
            if not decided[t, n]:
                continue
            now, weight = t, 1.0
            while True:
                then = next((k for k in range(now + 1, T + 1) if decided[k, n]), None)
                gain = rewards[now : T if then is None else then, n].sum()
                if then is None:  # the rollout is over before the step is
                    out[t, n] += weight * (gain + values[T, n] - values[now, n])
                    break
                after = 0.0 if cut[then, n] else values[then, n]
                out[t, n] += weight * (gain + DISCOUNT * after - values[now, n])
                if cut[then, n] or then == T:
                    break
                now, weight = then, weight * DISCOUNT * LAMBDA
    return out


def test_advantages_in_a_managers_own_time_are_those_written_out(generator):
    for _ in range(5):
        decided = torch.rand(T + 1, N, generator=generator) < 0.4
        cut = decided & (torch.rand(T + 1, N, generator=generator) < 0.4)  # codes above end where codes below do
        rewards = torch.randn(T, N, generator=generator, dtype=torch.float64)
        values = torch.randn(T + 1, N, generator=generator, dtype=torch.float64)
        fast = own_time_gae(rewards, values, decided, cut, DISCOUNT, LAMBDA)
        torch.testing.assert_close(fast, slowly(rewards, values, decided, cut))


def test_nothing_that_follows_a_cut_is_worth_anything_to_a_decision_before_it(generator):
    """Also where the cut lies between two decisions, as an episode's last frame does."""
    decided = torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.bool)[:, None]
    cut = torch.tensor([0, 0, 0, 1, 1, 0], dtype=torch.bool)[:, None]  # frame 3 is the last, frame 4 the next first
    rewards, values = torch.tensor([1.0, 2.0, 4.0, 0.0, 8.0])[:, None], torch.rand(6, 1, generator=generator)
    advantages = own_time_gae(rewards, values, decided, cut, DISCOUNT, LAMBDA)[:, 0]
    torch.testing.assert_close(advantages[0], 1.0 + 2.0 + 4.0 - values[0, 0])
    torch.testing.assert_close(advantages[4], 8.0 + values[5, 0] - values[4, 0])


def test_a_manager_learns_to_pick_what_pays_for_its_own_code():
    """Its code k pays if it picks k: one decision a step, each a block of its own."""
    world = World(16, 2, SHAPE, CPU, 0)
    manager = Manager(world, K, learning_rate=3e-3, seed=0, own_skills=K)
    rollout = Rollout(8, world, 1)
    rollout.all_frames.copy_(frames(9, 16)[:, :, 0])
    random = torch.Generator().manual_seed(0)
    share = 0.0
    for _ in range(40):
        up = torch.randint(K, (9, 16), generator=random)
        draws = torch.empty(9 * 16, K).exponential_(generator=random)
        stacks = rollout.all_frames.flatten(0, 1)[:, None]
        with torch.no_grad():
            code, log_prob, value = (x.view(9, 16) for x in manager.decide(stacks, up.flatten(), draws))
        yes = torch.ones(9, 16, dtype=torch.bool)
        right = (code == up)[:-1].float()
        manager.learn(rollout, right, Decisions(code, yes, log_prob, value, cut=yes, skill=up))
        share = float(right.mean())
    assert share > 0.9
