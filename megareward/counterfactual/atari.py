"""Branches of recorded Atari episodes; what `branches` does for mini games, here with clones of the emulator.

Each episode is first played again: only if every frame is as it was recorded, bit for bit, are its branches ground
truth. Episodes are independent, so worker processes share them. Torch is not needed here.

The frame with which a game ends is left out, on the recorded side and in branches: the emulator never draws it.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from megareward.cells import any_in_cells
from megareward.counterfactual.clonable_atari import Emulator
from megareward.envs.atari_config import AtariConfig
from megareward.errors import RunError


@dataclass(frozen=True)
class RecordedEpisode:
    """What is needed to play one episode again, and to check that it is the same."""

    rom: str
    config: AtariConfig
    hide_score: bool
    seed: int
    """Of the emulator itself."""
    frames: np.ndarray
    """(T + 1, px, px) bytes, all of one episode, from its first frame on and without its last."""
    actions: np.ndarray
    """(T,)"""


@dataclass
class Branch:
    """A state that some branches have in common."""

    state: Any
    members: np.ndarray
    """(L,) how many alternatives to the action n steps ago lead here, at [n - 1]."""


def branch_episode(
    recording: RecordedEpisode, grid: tuple[int, int], lags: int, tell: Callable[[], None] = lambda: None
) -> np.ndarray:
    """(T + 1, L, HW) bytes: at [t, n - 1, cell], how many alternatives to the action n steps before frame t would show
    something else in this cell of it. `tell` is called after every step."""
    emulator = Emulator(recording.rom, recording.config, hide_score=recording.hide_score, seed=recording.seed)
    n_actions, actions = len(emulator.actions), recording.actions
    state = find_start(emulator, recording)
    changed = np.zeros((len(actions) + 1, lags, grid[0] * grid[1]), np.uint8)
    newborn = np.eye(1, lags, dtype=np.int64)[0]
    worlds: list[Branch] = []
    for t, action in enumerate(actions):
        emulator.restore(state)
        screen, _ = emulator.decide(action)
        after = emulator.clone()
        if not np.array_equal(emulator.frame(screen), recording.frames[t + 1]):
            raise RunError(
                f"Frame {t + 1} of a clone of {recording.rom} is not what was recorded: the game does not draw every "
                "frame anew, and what is left on the screen cannot be cloned. Audit another game."
            )
        found: dict[bytes, Branch] = {}
        for before, taken, members in _candidates(worlds, state, int(action), n_actions, newborn):
            emulator.restore(before)
            shown, over = emulator.decide(taken)
            if over:  # there is nothing left to compare
                continue
            changed[t + 1] += np.outer(members, any_in_cells(emulator.changed_pixels(screen, shown), *grid)).astype(
                np.uint8
            )
            if members[:-1].any():
                own = emulator.clone()
                world = found.setdefault(own.serialize(), Branch(own, np.zeros(lags, np.int64)))
                world.members[1:] += members[:-1]  # every branch is a step older
        found.pop(after.serialize(), None)  # those came back: from here on nothing can differ
        worlds, state = list(found.values()), after
        tell()
    return changed


def _candidates(
    worlds: list[Branch], state: Any, action: int, n_actions: int, newborn: np.ndarray
) -> Iterator[tuple[Any, int, np.ndarray]]:
    """(state, action to take there, members): living worlds act as the episode did, new ones otherwise."""
    for world in worlds:
        yield world.state, action, world.members
    for other in range(n_actions):
        if other != action:
            yield state, other, newborn


def find_start(emulator: Emulator, recording: RecordedEpisode) -> Any:
    """The state of the first frame. The recording does not say how many frames without input came before it, but only
    the right number leads to the same episode."""
    for n_noops in range(recording.config.noop_max + 1):
        screen = emulator.start(n_noops)
        state = emulator.clone()
        if all(np.array_equal(frame, shown) for frame, shown in _replay(emulator, screen, recording)):
            return state
    raise RunError(
        f"A recorded episode of {recording.rom} cannot be played again from any start of at most "
        f"{recording.config.noop_max} frames without input; this is a bug, or another version of ale-py recorded it."
    )


def _replay(
    emulator: Emulator, screen: np.ndarray, recording: RecordedEpisode
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield emulator.frame(screen), recording.frames[0]
    for t, action in enumerate(recording.actions):
        screen, _ = emulator.decide(action)
        yield emulator.frame(screen), recording.frames[t + 1]


# Several episodes at once --------------------------------------------------------------------------------------------

_steps_done: Any = None
"""Shared with the worker processes, which count their steps in it."""


def branch_episodes(
    recordings: list[RecordedEpisode],
    grid: tuple[int, int],
    lags: int,
    processes: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[np.ndarray]:
    """`branch_episode` for each, by several processes. `progress` is called with the steps done and their total."""
    total = sum(len(recording.actions) for recording in recordings)
    tasks = [(recording, grid, lags) for recording in recordings]
    counter: Any
    if processes <= 1:
        counter = [0]

        def tell() -> None:
            counter[0] += 1
            progress(counter[0], total)

        return [branch_episode(*task, tell) for task in tasks]
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in the middle of their work
    counter = context.Value("q", 0)
    with context.Pool(min(processes, len(tasks)), _share, (counter,)) as pool:
        results = pool.starmap_async(_counted, tasks, chunksize=1)
        while not results.ready():
            results.wait(0.2)
            progress(counter.value, total)
        return results.get()


def _share(counter: Any) -> None:
    global _steps_done
    _steps_done = counter


def _counted(recording: RecordedEpisode, grid: tuple[int, int], lags: int) -> np.ndarray:
    def tell() -> None:
        with _steps_done.get_lock():
            _steps_done.value += 1

    return branch_episode(recording, grid, lags, tell)
