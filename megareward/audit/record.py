"""Play some episodes and find the truth about them, or read it from disk if it was found before."""

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from megareward.audit.truth import TRUTH_VERSION, AuditedEpisode, Truth, load_truth, save_truth
from megareward.control.grid import Grid
from megareward.counterfactual.atari import RecordedEpisode, branch_episodes
from megareward.counterfactual.mini import Branches
from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini.base import MiniGame
from megareward.envs.noise import clean_frames
from megareward.envs.wrapper import game_of
from megareward.errors import RunError, UsageError, warn
from megareward.runs.durable import alone
from megareward.training.config import TrainConfig, flat, to_dict
from megareward.training.evaluate import Player
from megareward.types import Tensor
from megareward.waiting import waiting

Progress = Callable[[int, int], None]
"""Is called with the number of steps done and of all steps."""


@dataclass(frozen=True)
class Plan:
    """Which episodes are recorded and how far their actions are followed."""

    policy: Literal["random", "trained"] = "random"
    episodes: int = 8
    frames: int = 300
    """Maximum number of decisions per episode."""
    lags: int = 64
    seed: int = 2_000_000

    def __post_init__(self) -> None:
        for name in ("episodes", "frames", "lags"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} is {getattr(self, name)}; it must be at least 1.")
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"--seed is {self.seed}; it must lie between 0 and {2**31 - 1}.")


def audited(config: TrainConfig) -> TrainConfig:
    """The same game, determined by the recorded actions alone: without sticky actions, since a clone of the emulator
    would not remember the last button, and without FIRE pressed after a lost life. Noise and camera do not matter: the
    policy sees the noise, but the truth is that of the game without it; and if the game has a version with a still
    camera, an action that only moves the camera controls nothing."""
    return dataclasses.replace(config, env=config.env.deterministic().with_still_camera(), stabilise=0)


def question(config: TrainConfig, plan: Plan, learnt: dict[str, Tensor]) -> dict[str, Any]:
    """Everything the truth depends on, including the checkpoint if its policy plays."""
    env = {name: value for name, value in to_dict(audited(config).env).items() if name not in ("threads", "groups")}
    grid = [config.control.H, config.control.W]
    asked = {"game": config.game, "env": env, "hide_score": config.hides_score, "grid": grid}
    asked |= dataclasses.asdict(plan) | {"player": fingerprint(learnt) if plan.policy == "trained" else None}
    return asked | ({"noise": to_dict(config.noise)} if config.noise.on and plan.policy == "trained" else {})


def fingerprint(tensors: dict[str, Tensor]) -> str:
    """A hash of the weights."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def truth_path(asked: dict[str, Any], folder: Path) -> Path:
    """File of the truth that answers this question."""
    digest = hashlib.sha256(json.dumps([TRUTH_VERSION, asked], sort_keys=True).encode()).hexdigest()
    return folder / f"{asked['game']}-{asked['policy']}-{digest[:12]}.safetensors.xz"


def find_truth(
    config: TrainConfig,
    plan: Plan,
    folder: Path,
    *,
    given: Path | None = None,
    learnt: dict[str, Tensor] | None = None,
    processes: int = 0,
    progress: Progress = lambda done, of: None,
    warn: Callable[[str], None] = warn,
) -> tuple[Truth, Path]:
    """The truth for a plan, read from disk or found now, and its path. If the trained policy is to play, `learnt` is
    its checkpoint. `given`: an existing set, or a folder of sets; then nothing is branched. Of several processes that
    ask at once, the first finds the truth and the others wait. If it cannot be saved, it is found again next time."""
    asked = question(config, plan, learnt or {})
    if given is not None:
        return _read_given(given, asked)
    path = truth_path(asked, folder)
    if path.is_file():
        return load_truth(path), path
    with alone(path, f"Waiting for another process, which finds the truth about {config.game}"):
        if path.is_file():
            return load_truth(path), path
        truth = branched(config, plan, asked, learnt, processes, progress)
        try:
            save_truth(truth, path)
        except OSError as why:
            warn(f"The truth cannot be kept in {folder} ({why.strerror}); --cache names another folder for it.")
    return truth, path


def _read_given(given: Path, asked: dict[str, Any]) -> tuple[Truth, Path]:
    """Read an existing set, and refuse it if it answers another question."""
    if not given.exists():
        raise UsageError(f"--truth {given} does not exist; give a file or a folder that `megareward truth` wrote.")
    path = truth_path(asked, given) if given.is_dir() else given
    if not path.is_file():
        raise UsageError(
            f"{given} has no truth for this audit (it would be {path.name}); --cache {given} in place of --truth "
            "makes it."
        )
    truth = load_truth(path)
    about, wanted = (flat(json.loads(json.dumps(one))) for one in (truth.about, asked))  # JSON: lists only
    for name, value in wanted.items():
        if (own := about.get(name)) != value:
            option = f"add --{name} {own}, or " if name in vars(Plan()) else ""
            raise UsageError(
                f"{path} is a truth with {name} {own}, but this audit needs {value}; {option}give the set made for it, "
                "which --cache FOLDER in place of --truth makes."
            )
    return truth, path


def branched(
    config: TrainConfig,
    plan: Plan,
    asked: dict[str, Any],
    learnt: dict[str, Tensor] | None,
    processes: int,
    progress: Progress,
) -> Truth:
    """Play the episodes and find the truth about them."""
    config = audited(config)
    finders = {"online": _mini_truth, "replay": _atari_truth}
    if config.game_row.branching not in finders:
        raise UsageError(f"{config.game} cannot be branched, so nobody knows what is controlled in it; audit another.")
    finder = finders[config.game_row.branching]
    agent = learnt if plan.policy == "trained" else None
    with waiting("Starting the games"):
        player = Player(config, agent, plan.episodes, plan.seed, torch.device("cpu"), tracks=False)
    names, episodes = finder(config, plan, player, processes or os.cpu_count() or 1, progress)
    episodes = [episode for episode in episodes if len(episode.actions)]
    if not episodes:
        raise RunError(f"Every game of {config.game} was over after one decision; nothing can be audited in it.")
    return Truth(asked, names, episodes)


def _mini_truth(
    config: TrainConfig, plan: Plan, player: Player, processes: int, progress: Progress
) -> tuple[tuple[str, ...], list[AuditedEpisode]]:
    """The truth of a mini game: branches run beside the games."""
    env = game_of(player.env)
    assert isinstance(env, MiniGame)
    grid = Grid(config.control.H, config.control.W, *env.frame_shape)
    step = player.begin()
    branches = Branches(env, grid, plan.lags)
    frames, firsts, actions = [clean_frames(player.env, step)], [step.first], []
    changed = [torch.zeros(plan.episodes, plan.lags, grid.n_cells, dtype=torch.uint8)]
    for t in range(plan.frames):
        step = player.step()
        actions.append(player.actions.clone())
        frames.append(clean_frames(player.env, step))
        firsts.append(step.first)
        changed.append(branches.step(actions[-1], step.first, frames[-1]).to(torch.uint8))
        progress((t + 1) * plan.episodes, plan.frames * plan.episodes)
    lengths = (torch.stack(firsts).long().cumsum(0) == 1).sum(0).tolist()  # frames of each game's first episode
    columns = [torch.stack(series) for series in (frames, actions, changed)]
    episodes = []
    for n, length in enumerate(lengths):
        shown, taken, found = (series[:, n] for series in columns)  # (T + 1, ...), actions (T,)
        episodes.append(AuditedEpisode(shown[:length].clone(), taken[: length - 1].clone(), found[:length].clone()))
    return env.action_names, episodes


def _atari_truth(
    config: TrainConfig, plan: Plan, player: Player, processes: int, progress: Progress
) -> tuple[tuple[str, ...], list[AuditedEpisode]]:
    """The truth of an Atari game: the vector emulator plays; clones of the plain emulator branch afterwards."""
    assert isinstance(config.env, AtariConfig)
    names = player.env.action_names
    try:
        with waiting("Playing the episodes"):
            step = player.begin()
            frames, over, actions = [clean_frames(player.env, step)], [step.episode_over], []
            for _ in range(plan.frames):
                step = player.step()
                actions.append(player.actions.clone())
                frames.append(clean_frames(player.env, step))
                over.append(step.episode_over)
                if torch.stack(over).any(0).all():
                    break
    finally:
        player.env.close()
    seeds = np.random.SeedSequence(plan.seed).generate_state(plan.episodes) >> 1  # as `Atari.reset` spreads them
    ended = torch.stack(over).long().cumsum(0) > 0  # the last frame of a game is never drawn: without it
    shown, taken = torch.stack(frames).numpy(), torch.stack(actions).numpy()
    recordings = []
    for n, length in enumerate((~ended).sum(0).tolist()):
        own = shown[:length, n].copy(), taken[: length - 1, n].copy()
        recordings.append(RecordedEpisode(config.game, config.env, config.hides_score, int(seeds[n]), *own))
    grid = (config.control.H, config.control.W)
    found = branch_episodes(recordings, grid, plan.lags, processes, progress)
    arrays = ((r.frames, r.actions, changed) for r, changed in zip(recordings, found, strict=True))
    return names, [AuditedEpisode(*map(torch.from_numpy, parts)) for parts in arrays]
