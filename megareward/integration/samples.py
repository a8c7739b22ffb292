"""Reads and checks the user's data: one step, or a rollout under RLeXplore's six keys."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from gymnasium.spaces import Discrete

from megareward.errors import UsageError, suggestion
from megareward.integration.observations import FrameReader, read_actions, read_flags, read_rewards
from megareward.integration.steps import UserSteps
from megareward.types import Bool, Float, Int, Tensor, UInt8

KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
"""Keys of samples, and arguments of `watch` (RLeXplore's)."""


class Given(NamedTuple):
    """The six entries, each on the device of the user's array. Axes `*B`: (N,) for a step, (T, N) for a rollout."""

    before: UInt8[Tensor, "*B px_h px_w"]
    actions: Int[Tensor, "*B"]
    rewards: Float[Tensor, "*B"]
    terminated: Bool[Tensor, "*B"]
    truncated: Bool[Tensor, "*B"]
    after: UInt8[Tensor, "*B px_h px_w"]


def read(values: Mapping[str, Any], lead: tuple[int, ...], reader: FrameReader, space: Discrete) -> Given:
    return Given(
        before=reader.read(values["observations"], lead),
        actions=read_actions(space, values["actions"], lead),
        rewards=read_rewards(values["rewards"], lead),
        terminated=read_flags(values["terminateds"], lead, "terminateds"),
        truncated=read_flags(values["truncateds"], lead, "truncateds"),
        after=reader.read(values["next_observations"], lead, "next_observations"),
    )


def read_rollout(
    samples: Mapping[str, Any], n_envs: int, reader: FrameReader, space: Discrete, device: torch.device
) -> Given:
    for key in KEYS:
        if key not in samples:
            raise UsageError(f"samples lack '{key}'; they need {', '.join(KEYS)}.")
    for key in samples:
        if key not in KEYS:
            raise UsageError(f"samples have an unknown key '{key}'.{suggestion(str(key), KEYS)}")
    shape = getattr(samples["rewards"], "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != n_envs or shape[0] < 1:
        raise UsageError(
            f"samples have rewards of shape {None if shape is None else tuple(shape)}; expected (n_steps, {n_envs}), "
            f"and all six with these two axes first."
        )
    return Given(*(x.to(device) for x in read(samples, tuple(shape), reader, space)))


def as_steps(given: Given, next_step: bool, resets: Bool[Tensor, "N"], first: Bool[Tensor, "N"]) -> UserSteps:
    """Samples that were not watched, as steps without a control map.

    `resets`: environments whose first step is a reset; `first`: those whose first observation opens an episode (next
    step only).
    """
    device, lead = given.actions.device, given.actions.shape
    ended = given.terminated | given.truncated
    ended_before = torch.cat([resets.to(device)[None], ended[:-1]])  # (T, N)
    none = torch.zeros_like(ended)
    opens, first_after = (none, ended_before) if next_step else (ended_before, none)
    first_before = torch.cat([first.to(device)[None], first_after[:-1]]) | opens
    check_order(given.after[:-1], given.before[1:], opens[1:])
    if next_step:
        late = LateFlags(lead[1])
        for t, ended in enumerate(ended_before.cpu()):
            late.look(Given(*(x[t] for x in given)), ended)
    no_map = torch.zeros(*lead, 0, device=device)
    return UserSteps(
        before=given.before,
        after=given.after,
        actions=given.actions,
        rewards=given.rewards,
        terminated=given.terminated,
        truncated=given.truncated,
        opens=opens,
        first_before=first_before,
        first_after=first_after,
        direct_before=no_map,
        direct_after=no_map,
        g_before=no_map,
        g_after=no_map,
        mega_reward=torch.zeros(lead, device=device),
    )


def check_order(
    last: UInt8[Tensor, "T N px_h px_w"], now: UInt8[Tensor, "T N px_h px_w"], opens: Bool[Tensor, "T N"]
) -> None:
    """Check that observations follow each other; otherwise transitions that never happened would be learnt."""
    same = (last.to(now.device) == now).flatten(2).all(-1)  # (T, N)
    opens = opens.to(now.device)
    gaps = (~same & ~opens).nonzero()
    if len(gaps):
        raise UsageError(
            f"observations of environment {int(gaps[0, 1])} are not the next_observations of the step before, although "
            f"its episode had not ended. Pass every step, in order and with its own flags, or call restart() after a "
            f"reset by hand."
        )
    if (same & opens).any():
        warnings.warn(
            "At an episode's end, next_observations are the same as the observations of the step after it. Are they "
            "the true last frames (infos['final_obs'], terminal_observation), not the first ones of the new episode? "
            "If your environments reset on the next step, pass autoreset='next_step'.",
            stacklevel=4,
        )


class LateFlags:
    """Warns if flags are those of the step before; for resets on the next step, where no other check finds this.

    With the right flags, the step after a flagged one jumps to a new episode. With late ones, the flagged step does.
    """

    ENOUGH = 3
    """Number of ends that indicate late flags, minus those that indicate right ones, at which to warn."""

    def __init__(self, n_envs: int) -> None:
        self.evidence = 0
        self.flagged = torch.zeros(n_envs)
        """How much the last step changed the screen, for environments in which it was flagged."""

    def look(self, given: Given, resets: Bool[Tensor, "N"]) -> None:
        """Check one step; `resets`: environments that ended in the step before."""
        ended = (given.terminated | given.truncated).cpu()
        if not (ended | resets).any():
            return
        change = (given.after.float() - given.before.float()).abs().mean((-2, -1)).cpu()  # (N,)
        late, right = self.flagged > 2 * change, self.flagged < change
        before, self.flagged = self.evidence, change
        self.evidence += int((resets & late).sum()) - int((resets & right).sum())
        if before < self.ENOUGH <= self.evidence:
            warnings.warn(
                "terminateds and truncateds look like those of the step before: the screen jumps in the steps they "
                "mark, not in those after them. Pass what the very step returned (CleanRL's dones[t] is that of "
                "step t - 1).",
                stacklevel=3,
            )


def check_watched(given: Given, watched: UserSteps) -> None:
    """Check that samples are exactly the watched steps."""
    if len(given.actions) != len(watched.actions):
        raise UsageError(
            f"samples hold {len(given.actions)} steps, but {len(watched.actions)} were watched since the last "
            f"update(); hand over all of them, once. A rollout that is given up needs a forget()."
        )
    pairs = {
        "actions": (given.actions, watched.actions),
        "terminateds": (given.terminated, watched.terminated),
        "truncateds": (given.truncated, watched.truncated),
        "observations": (given.before, watched.before),
        "next_observations": (given.after, watched.after),
    }
    for key, (one, two) in pairs.items():
        if not torch.equal(one, two):
            t, n = (one != two).nonzero()[0, :2].tolist()
            raise UsageError(
                f"samples are not what was watched: {key} differ at step {t} of environment {n}. Pass watch() the same "
                f"arrays, with flags as that very step returned them."
            )
