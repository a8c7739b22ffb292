"""Play whole games with a trained policy and report the raw scores."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.errors import UsageError
from megareward.ppo.agent import Agent, RandomAgent
from megareward.reward_stream import RewardStream
from megareward.runs.checkpoint import DamagedError, load_newest, newest_state
from megareward.runs.durable import append_line, explained
from megareward.runs.folder import RunFolder
from megareward.state import MismatchError, check_fits, part
from megareward.statistics.scores import rooms_of
from megareward.training.clock import Clock
from megareward.training.collect import Collector
from megareward.training.config import NO_BEARING, TrainConfig, flat, read_config, upgraded
from megareward.training.parts import (
    as_the_agent_sees_it,
    make_agent,
    make_game,
    make_observers,
    make_rollout,
    world_of,
)
from megareward.training.rooms import Rooms, game_with_memory
from megareward.training.score_book import Episode
from megareward.types import Int, Tensor
from megareward.waiting import waiting

MAX_ENVS = 32
"""Games played in parallel. A step of few takes as long as one of many: the policy's kernels dominate."""


@dataclass(frozen=True)
class Evaluation:
    """Scores of complete games played by one checkpoint."""

    frames: int
    """Emulator frames the checkpoint was trained for."""
    seed: int
    greedy: bool
    scores: list[float]
    cut: int
    """How many of the games a time limit ended."""
    skills: list[int] = field(default_factory=list)
    """The skill of each game, if the policy has skills and plays a whole game with one of them."""
    rooms: list[list[int]] = field(default_factory=list)
    """The rooms visited in each game, if they were asked for."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float:
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else float("nan")

    @property
    def rooms_visited(self) -> tuple[float, list[int]]:
        """Mean number in a game, and all of them."""
        return rooms_of(self.rooms)

    @property
    def best_skill(self) -> tuple[int, float, int] | None:
        """The skill with the highest mean score, that mean, and its number of games. Chosen after the fact, so it is
        never reported as the score."""
        by_skill: dict[int, list[float]] = {}
        for skill, score in zip(self.skills, self.scores, strict=False):
            by_skill.setdefault(skill, []).append(score)
        if not by_skill:
            return None
        best = max(by_skill, key=lambda skill: float(np.mean(by_skill[skill])))
        return best, float(np.mean(by_skill[best])), len(by_skill[best])


@dataclass(frozen=True)
class Game(Episode):
    """A game of an evaluation."""

    skill: int | None = None
    """The skill it was played with; None without skills, or if skills change during a game."""
    rooms: list[int] | None = None
    """The rooms visited, if they were asked for."""


def evaluate_run(
    path: Path,
    episodes: int,
    *,
    seed: int = 1_000_000,
    greedy: bool = False,
    rooms: bool = False,
    device: torch.device,
    warn: Callable[[str], None] = print,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Evaluation:
    """Play with the newest checkpoint of a run, under the run's own protocol. `rooms`: see `play`."""
    if episodes < 1:
        raise UsageError(f"--episodes is {episodes}; it must be at least 1.")
    if not 0 <= seed < 2**31:
        raise UsageError(f"--seed is {seed}; it must lie between 0 and {2**31 - 1}.")
    folder = RunFolder.open(path)
    config = read_config(folder, warn)
    learnt, frames = newest_tensors(folder, warn)
    games = play(config, learnt, episodes, seed=seed, greedy=greedy, rooms=rooms, device=device, progress=progress)
    skills = [game.skill for game in games if game.skill is not None]
    visited = [game.rooms for game in games if game.rooms is not None]
    scores, cut = [game.score for game in games], sum(game.cut for game in games)
    return Evaluation(frames, seed, greedy, scores, cut, skills, visited)


def save_evaluation(result: Evaluation, file: Path) -> None:
    """Append it to a log such as eval.jsonl in the run's folder, which reports and records read."""
    entries = {name: value for name, value in dataclasses.asdict(result).items() if value != []}
    with explained(file):
        append_line(file, entries)


def newest_tensors(folder: RunFolder, warn: Callable[[str], None]) -> tuple[dict[str, Tensor], int]:
    """All tensors of the newest whole checkpoint, and the frames it was trained for. Warns of settings in config.json
    that differ from the checkpoint's."""

    def accept(path: Path, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        if state.get("frames") != int(path.name):
            raise DamagedError("state.json is not what was written")
        try:
            check_fits(tensors, {})
        except MismatchError as mismatch:
            raise DamagedError(str(mismatch)) from mismatch

    found = load_newest(folder.checkpoints, warn, accept)
    for name, (was, now) in other_settings(folder).items():
        warn(f"{folder.path / 'config.json'} says {name} {now!r}, but the checkpoint was made with {was!r}.")
    if found is None:
        raise UsageError(f"{folder.path} has no checkpoint yet; `megareward resume {folder.path}` trains it first.")
    _, tensors, state = found
    return tensors, state["frames"]


def other_settings(folder: RunFolder) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, as (in the newest checkpoint, in config.json) by dotted name. Fields that one of the two
    lacks come from another version and are ignored."""
    saved, here = newest_state(folder.checkpoints).get("config"), folder.record()["config"]
    saved, here = (flat(upgraded(config)) if isinstance(config, dict) else {} for config in (saved, here))
    names = [name for name in saved if name in here and name not in NO_BEARING]
    return {name: (saved[name], here[name]) for name in names if saved[name] != here[name]}


@contextmanager
def mismatch_explained() -> Iterator[None]:
    """Turn errors of tensors that do not fit config.json into a `UsageError` of one sentence."""
    try:
        yield
    except (RuntimeError, KeyError, TypeError) as mismatch:
        raise UsageError(f"The checkpoint does not fit the run's config.json: {mismatch}") from mismatch


class Player:
    """Plays N games with the policy and observers of a checkpoint, which do not learn; without one, at random."""

    def __init__(
        self,
        config: TrainConfig,
        learnt: dict[str, Tensor] | None,
        n_envs: int,
        seed: int,
        device: torch.device,
        with_relation: bool = False,
        tracks: bool = True,
        random: bool = False,
        env: BatchedEnv | None = None,
    ) -> None:
        """`tracks` False leaves out observers whose fields the policy does not see. `random`: actions are random, but
        the observers are the run's own. `env`: the games, if not those that the config names."""
        config = replace(config, ppo=replace(config.ppo, precision="float32"))
        env = self.env = make_game(config, n_envs, device) if env is None else env
        world, generator = world_of(env, device, seed, config), torch.Generator(device).manual_seed(seed)
        names = config.observers if tracks else config.observers_of_policy
        self.observers = make_observers(
            config, env, world, names=names if learnt else (), learns=False, with_relation=with_relation
        )
        weights = part(learnt or {}, "policy")
        with mismatch_explained():
            n_streams = len(weights["value_head.weight"]) if weights else 1
            self.rollout = make_rollout(config, world, self.observers, 1, n_streams)
            agent: Agent = RandomAgent(world, n_streams)
            if weights and not random:
                streams = [RewardStream(f"{i}") for i in range(n_streams)]
                agent = make_agent(config, world, self.rollout, streams, generator)
                agent.load_policy(weights)
            for name, observer in self.observers.items():
                observer.load_state_dict(part(learnt or {}, f"observer.{name}"))
        self.seed = seed
        self.finished: list[Episode] = []
        """Games that ended with the last step."""
        self.collector = Collector(env, self.rollout, list(self.observers.values()), agent, generator)
        self._clock = Clock()

    def begin(self) -> Step:
        step = self.env.reset(self.seed)
        self.collector.begin(step)
        return step

    @torch.no_grad()
    def step(self, greedy: bool = False) -> Step:
        """`greedy`: take the likeliest action instead of sampling one."""
        step = self.collector.step(0, self._clock, greedy=greedy)
        self.rollout.roll()
        self.finished = self.collector.score_book.close(0, 0)
        for episode in self.finished:
            for observer in self.observers.values():
                observer.new_game(episode.env)
        return step

    @property
    def actions(self) -> Int[Tensor, "N"]:
        """The actions that led to the newest frame."""
        return self.rollout.actions[0]

    def field(self, name: str) -> Tensor | None:
        """This field of the newest frame; None if no observer records it."""
        return self.rollout.fields[name][0] if name in self.rollout.fields else None


def play(
    config: TrainConfig,
    learnt: dict[str, Tensor] | None,
    episodes: int,
    *,
    seed: int = 1_000_000,
    greedy: bool = False,
    rooms: bool = False,
    device: torch.device,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Game]:
    """Play `episodes` whole games. Each environment plays a fixed number of them, so that long games count fully.

    `rooms`: note the rooms visited, on emulators whose memory can be read, which are slower.
    """
    N = min(episodes, MAX_ENVS)
    owed = np.full(N, episodes // N)
    owed[: episodes % N] += 1
    games: list[Game] = []
    with waiting("Starting the games"):
        atari = game_with_memory(config, N) if rooms else None
        visited = Rooms(config.game, atari) if atari else None
        env = as_the_agent_sees_it(config, atari) if atari else None
        player = Player(config, learnt, N, seed, device, tracks=False, env=env)
    skill = config.method_row.skill if config.method_row.one_skill_per_game else None
    try:
        player.begin()
        while owed.any():
            player.step(greedy)
            if visited:
                visited.look()
            for episode in player.finished:
                seen = visited.close(episode.env) if visited else None
                if owed[episode.env]:
                    owed[episode.env] -= 1
                    codes = player.field(skill) if skill else None
                    code = None if codes is None else int(codes[episode.env])
                    games.append(Game(**vars(episode), skill=code, rooms=seen))
            progress(len(games), episodes)
    finally:
        player.env.close()
    return games
