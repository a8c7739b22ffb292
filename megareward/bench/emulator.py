"""Frames per second of the environments alone, under random actions: the limit of everything else."""

import time
from collections.abc import Iterator, Sequence

import torch

from megareward.envs.games import find_game
from megareward.envs.interface import BatchedEnv
from megareward.envs.make import make_env
from megareward.runs.provenance import provenance
from megareward.waiting import waiting


def play_randomly(env: BatchedEnv, seconds: float) -> tuple[int, float]:
    """Step running games as fast as possible; all groups are kept busy.

    Returns emulator frames and seconds; every step that was sent is received.
    """
    groups = env.n_groups
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
    """Frames per second, after a warm-up of threads in which episodes drift apart."""
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
    game = find_game(game).name
    settings = find_game(game).config()
    options = dict.fromkeys(settings.with_threads(t).with_groups(g) for t in threads for g in groups)
    for N in n_envs:
        for config in options:
            env = make_env(game, N, config, hide_score=False, device=device, in_groups=True)
            try:
                with waiting(f"Measuring {N} environments", 1.2 * seconds):
                    speed = emulator_speed(env, seconds)
            finally:
                env.close()
            yield {
                "game": game,
                "n_envs": N,
                "threads": config.threads,
                "groups": config.groups,
                "device": torch.cuda.get_device_name(env.device) if env.device.type == "cuda" else "cpu",
                "frames_per_s": speed,
                "provenance": provenance(device),
            }
