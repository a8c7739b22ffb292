"""Frames per second of the environments alone, under random actions: the limit of everything else."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from megareward.envs.atari_config import AtariConfig
from megareward.envs.games import resolve_game
from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.runs.provenance import provenance
from megareward.training.config import env_config_class


def play_randomly(env: BatchedEnv, seconds: float) -> tuple[int, float]:
    """Step games that are under way, as fast as they go: groups that take turns are all kept busy.

    Returns emulator frames and seconds; every step that was begun is finished.
    """
    groups = getattr(env, "n_groups", 1)
    n = env.n_envs // groups
    generator = torch.Generator(env.device).manual_seed(0)

    def send() -> None:
        env.send(torch.randint(env.n_actions, (n,), generator=generator, device=env.device))

    begun, steps = time.perf_counter(), 0
    for _ in range(groups):
        send()
    while time.perf_counter() - begun < seconds:
        for _ in range(groups):
            env.recv()
            send()
        steps += groups
    for _ in range(groups):
        env.recv()
    if env.device.type == "cuda":
        torch.cuda.synchronize(env.device)
    return (steps + groups) * n * env.frame_skip, time.perf_counter() - begun


def emulator_speed(env: BatchedEnv, seconds: float) -> float:
    """Frames per second, after a while in which episodes drift apart and threads warm up."""
    env.reset(0)
    play_randomly(env, 0.2 * seconds)
    frames, elapsed = play_randomly(env, seconds)
    return frames / elapsed


def sweep_emulator(
    game: str,
    n_envs: Sequence[int],
    threads: Sequence[int],
    groups: Sequence[int],
    seconds: float,
    device: torch.device,
) -> Iterator[dict[str, object]]:
    """One record per number of environments, threads and groups. Mini games have neither threads nor groups."""
    game = resolve_game(game)
    settings = env_config_class(game)()
    options = [(t, g) for t in threads for g in groups] if isinstance(settings, AtariConfig) else [(0, 1)]
    for N in n_envs:
        for n_threads, n_groups in options:
            config = settings
            if isinstance(config, AtariConfig):
                config = replace(config, threads=n_threads, groups=n_groups)
            env = make_env(game, N, config, hide_score=False, device=device, in_groups=True)
            try:
                speed = emulator_speed(env, seconds)
            finally:
                env.close()
            yield {
                "game": game,
                "n_envs": N,
                "threads": n_threads,
                "groups": n_groups,
                "device": torch.cuda.get_device_name(env.device) if env.device.type == "cuda" else "cpu",
                "frames_per_s": speed,
                "provenance": provenance(device),
            }
