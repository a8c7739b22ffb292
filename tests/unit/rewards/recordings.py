"""Rollouts made by hand, and what must hold for every reward whatever it computes. Every axis has its own size."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from megareward.rewards.interface import Reward
from megareward.rollout import Recorded
from megareward.world import World

T, N, A, HW = 5, 3, 7, 6
CELLS = (2, 3)
SMALL, ATARI = (32, 36), (84, 84)
RESETS = ((0, 0), (3, 1), (5, 2))
"""(t, n) of the frames that open an episode: at the start, in the middle and at the end of a rollout."""


def world(frame_shape: tuple[int, int] = SMALL, seed: int = 1, n_envs: int = N, n_actions: int = A) -> World:
    return World(n_envs, n_actions, frame_shape, torch.device("cpu"), seed, cells=CELLS)


def record(
    frames: torch.Tensor,
    actions: torch.Tensor | None = None,
    first: Iterable[tuple[int, int]] = (),
    direct: torch.Tensor | None = None,
) -> Recorded:
    """(T+1, N, px_h, px_w) frames as a rollout."""
    T, N = len(frames) - 1, frames.shape[1]
    flags = torch.zeros(T + 1, N, dtype=torch.bool)
    opens = flags.clone()
    for t, n in first:
        opens[t, n] = True
    fields = {} if direct is None else control_fields(direct, torch.zeros_like(direct), torch.zeros(T, N))
    if actions is None:
        actions = torch.zeros(T, N, dtype=torch.int64)
    return Recorded(frames, actions, opens, flags, flags, None, fields)


def control_fields(direct: torch.Tensor, g: torch.Tensor, growth: torch.Tensor) -> dict[str, torch.Tensor]:
    """What the control observer records: maps of T+1 frames, and `growth` (T, N) of the steps between them."""
    return {"direct": direct, "g": g, "mega_reward": torch.cat([torch.zeros_like(growth[:1]), growth])}


def noise(frame_shape: tuple[int, int] = SMALL, seed: int = 0, first: Iterable[tuple[int, int]] = RESETS) -> Recorded:
    """Random frames, actions and control maps; the map of a first frame is empty, as the tracker leaves it."""
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(256, (T + 1, N, *frame_shape), dtype=torch.uint8, generator=random)
    direct = torch.rand(T + 1, N, HW, generator=random).softmax(-1)
    recorded = record(frames, torch.randint(A, (T, N), generator=random), first, direct)
    direct[recorded.first] = 0
    return recorded


def poisoned(recorded: Recorded) -> Recorded:
    """The same rollout as far as real transitions tell: all that only belongs to a step across a reset is different.

    That is the action of such a step, and the first frame itself if the rollout ends with it.
    """
    frames, actions = recorded.frames.clone(), recorded.actions.clone()
    actions[~recorded.real] = (actions[~recorded.real] + 1) % A
    frames[-1][recorded.first[-1]] = 255 - frames[-1][recorded.first[-1]]
    assert not torch.equal(frames, recorded.frames)
    assert not torch.equal(actions, recorded.actions)
    return replace(recorded, frames=frames, actions=actions)


def with_skills(recorded: Recorded, n_skills: int, spans: tuple[int, ...] = (2,), seed: int = 0) -> Recorded:
    """The same with codes of each level, drawn every so many steps and at first frames, and where they began."""
    random, fields = torch.Generator().manual_seed(seed), dict(recorded.fields)
    frames, first = recorded.frames, recorded.first
    for level, span in enumerate(spans):
        name = f"skill_{level}" if level else "skill"
        offer = torch.randint(n_skills, first.shape, generator=random)
        skill, drawn, start = offer.clone(), torch.zeros_like(first), frames.clone()
        age = torch.zeros_like(offer[0])
        for t in range(len(first)):
            age = torch.where(first[t], 0, age + 1) % span if t else age
            drawn[t] = age == 0
            if t:
                skill[t] = torch.where(drawn[t], offer[t], skill[t - 1])
                start[t] = torch.where(drawn[t][:, None, None], frames[t], start[t - 1])
        fields |= {name: skill, f"{name}_drawn": drawn, f"{name}_start": start}
    return replace(recorded, fields=fields)


def copied(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def assert_equal(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    assert [name for name in one if not torch.equal(one[name], two[name])] == []


class NoWaiting(TorchDispatchMode):
    """Fails where a GPU would have to be waited for: a number read by Python, or a result of unknown size."""

    WAITS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::bincount")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func._schema.name not in self.WAITS, f"{func} waits for the device"
        if func._schema.name == "aten::index":
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "indexing by a mask waits for the device"
        return func(*args, **(kwargs or {}))


def assert_computing_changes_nothing(reward: Reward, recorded: Recorded) -> None:
    """Nor waits for the device."""
    before, frames = copied(reward.state_dict()), recorded.frames.clone()
    global_rng = torch.get_rng_state()
    with NoWaiting():
        one, two = reward.compute(recorded), reward.compute(recorded)
    assert one.shape == recorded.actions.shape
    assert one.dtype == torch.float32
    assert not one.requires_grad
    assert torch.isfinite(one).all()
    assert torch.equal(one, two)
    assert_equal(before, reward.state_dict())
    assert torch.equal(frames, recorded.frames)
    assert torch.equal(global_rng, torch.get_rng_state())


def assert_resumes(
    make: Callable[[World], Reward], frame_shape: tuple[int, int] = SMALL, noise: Callable[..., Recorded] = noise
) -> None:
    """Save, load into a reward born of another seed, go on: the same numbers as without the break, bit for bit."""
    one, other = make(world(frame_shape)), make(world(frame_shape, seed=99))
    safetensors.torch.save(one.state_dict())  # can be written from the first moment
    one.update(noise(frame_shape, 1))
    state = copied(one.state_dict())
    safetensors.torch.save(state)
    saved = copied(state)
    other.load_state_dict(state)
    for seed in (2, 3):
        recorded = noise(frame_shape, seed)
        assert torch.equal(one.compute(recorded), other.compute(recorded))
        metrics = one.update(recorded)
        assert all(metric.shape == () for metric in metrics.values())
        assert_equal(metrics, other.update(recorded))
        assert_equal(one.state_dict(), other.state_dict())
    assert_equal(saved, state)  # whoever goes on from a state does not write into it


def assert_resets_do_not_matter(
    make: Callable[[World], Reward], frame_shape: tuple[int, int] = SMALL, noise: Callable[..., Recorded] = noise
) -> None:
    clean, other = make(world(frame_shape)), make(world(frame_shape))
    for seed in (1, 2):
        recorded = noise(frame_shape, seed)
        one, two = clean.compute(recorded), other.compute(poisoned(recorded))
        assert torch.equal(one[recorded.real], two[recorded.real])
        assert_equal(clean.update(recorded), other.update(poisoned(recorded)))
    assert_equal(clean.state_dict(), other.state_dict())


def assert_resets_alone_teach_nothing(make: Callable[[World], Reward], noise: Callable[..., Recorded] = noise) -> None:
    reward = make(world())
    recorded = noise(first=[(t, n) for t in range(T + 1) for n in range(N)])
    assert not recorded.real.any()
    before = copied(reward.state_dict())
    metrics = reward.update(recorded)
    assert all(torch.isfinite(metric) for metric in metrics.values())
    after = reward.state_dict()
    assert_equal({k: v for k, v in before.items() if k != "draws"}, {k: v for k, v in after.items() if k != "draws"})
