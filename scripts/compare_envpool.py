"""Would EnvPool's Atari show the same games as ale-py's vector emulator, and would it start and run faster?

    pip install "envpool>=1.2"
    python scripts/compare_envpool.py [--games breakout pong seaquest up_n_down] [--steps 1000] [--n-envs 64 256]

Both get our preprocessing (4 frames a decision, the brighter of the last two, 84 x 84 by area, FIRE at the start and
after a lost life), the same seeds and the same random actions. Counted is where frames, rewards, lives and flags
differ, apart for the last frames of games, with each way of starting. Then each is built anew in a process of its own:
seconds on the clock and of the CPU (all threads), which say more on a busy machine.
"""

import argparse
import importlib.util
import itertools
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from megareward.envs.atari import Atari
from megareward.envs.atari_config import AtariConfig

N = 4
"""Games side by side while comparing."""
PROTOCOLS = {
    "no random start": AtariConfig(noop_max=1, threads=2),
    "all 18 actions": AtariConfig(noop_max=1, threads=2, full_actions=True),
    "sticky actions": AtariConfig(noop_max=1, threads=2, sticky=0.25),
    "time limit of 400 frames": AtariConfig(noop_max=1, threads=2, max_frames=400),
    "random start, as trained": AtariConfig(threads=2),
}


def make_pool(rom: str, n_envs: int, config: AtariConfig, seeds: list[int]) -> Any:
    """EnvPool with the settings that `envs.atari` gives to ale-py. Its seeds are given here, once and for all."""
    import envpool

    name = "".join(word.capitalize() for word in rom.split("_")) + "-v5"
    return envpool.make_gymnasium(
        name,
        num_envs=n_envs,
        num_threads=config.threads,
        env_seed=seeds,
        max_episode_steps=config.max_frames // config.frame_skip,  # EnvPool counts decisions, ale-py frames
        img_height=config.px,
        img_width=config.px,
        stack_num=1,
        frame_skip=config.frame_skip,
        noop_max=config.noop_max,
        use_fire_reset=config.fire_reset,
        full_action_space=config.full_actions,
        repeat_action_probability=config.sticky,
        reward_clip=False,
    )


def compare(rom: str, config: AtariConfig, steps: int) -> dict[str, int]:
    """How many of `steps` x N answers are not the same."""
    seeds = np.random.SeedSequence(0).generate_state(N) >> 1
    ours = Atari(rom, N, config, hide_score=False)
    emulator, fire = ours._emulator, ours._fire
    pool = make_pool(rom, N, config, seeds.tolist())
    (frames, info), (pool_frames, pool_info) = emulator.reset(seed=seeds.astype(np.int64)), pool.reset()
    differ = dict.fromkeys(("frames", "last frames", "rewards", "lives", "flags"), 0)
    first = int((frames != pool_frames).any((1, 2, 3)).sum())
    rng, lives, ends = np.random.default_rng(0), info["lives"], 0
    for _ in range(steps):
        actions = rng.integers(ours.n_actions, size=N)
        if fire is not None:
            actions[info["lives"] < lives] = fire
        lives = info["lives"]
        frames, rewards, terminated, truncated, info = emulator.step(actions)
        pool_frames, pool_rewards, pool_terminated, pool_truncated, pool_info = pool.step(actions.astype(np.int32))
        over, other = terminated | truncated, (frames != pool_frames).any((1, 2, 3))
        ends += int(over.sum())
        differ["frames"] += int((other & ~over).sum())
        differ["last frames"] += int((other & over).sum())
        differ["rewards"] += int((rewards != pool_rewards).sum())
        differ["lives"] += int((info["lives"] != pool_info["lives"]).sum())
        differ["flags"] += int(((terminated != pool_terminated) | (truncated != pool_truncated)).sum())
    ours.close()
    pool.close()
    return {"first frames": first, **differ, "games": ends}


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def start_and_speed(kind: str, n_envs: int, seconds: float) -> dict[str, float]:
    """Seconds on the clock and of the CPU for each part of a start, and frames per second after it."""
    config, seeds = AtariConfig(), np.arange(1, n_envs + 1)
    marks: list[tuple[str, float, float]] = [("", time.perf_counter(), cpu_seconds())]

    def mark(part: str) -> None:
        marks.append((part, time.perf_counter(), cpu_seconds()))

    if kind == "envpool":
        import envpool  # noqa: F401

        mark("import")
    env = Atari("breakout", n_envs, config, hide_score=False)._emulator if kind == "ale-py" else None
    env = env or make_pool("breakout", n_envs, config, seeds.tolist())
    mark("build")
    env.reset(**({"seed": seeds} if kind == "ale-py" else {}))
    mark("first reset")
    rng, frames = np.random.default_rng(0), 0
    while time.perf_counter() - marks[-1][1] < seconds:
        env.step(rng.integers(4, size=n_envs).astype(np.int32))
        frames += n_envs * config.frame_skip
    mark("steps")
    parts = {
        f"{part}, {of}": b[i] - a[i]
        for a, b in itertools.pairwise(marks)
        for part in [b[0]]
        for i, of in ((1, "s"), (2, "CPU s"))
    }
    spent, busy = parts.pop("steps, s"), parts.pop("steps, CPU s")
    return parts | {"frames/s": frames / spent, "frames/CPU s": frames / busy}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", nargs="*", default=["breakout", "pong", "seaquest", "up_n_down"])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--n-envs", nargs="*", type=int, default=[64, 256])
    parser.add_argument("--seconds", type=float, default=5.0, help="of stepping, for the speed")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.only:
        print(json.dumps(start_and_speed(options.only[0], int(options.only[1]), options.seconds)))
        return 0
    if importlib.util.find_spec("envpool") is None:
        print("Nothing was compared: EnvPool is not installed. `pip install envpool` brings it, with 0.7 GB of assets.")
        return 0
    for rom in options.games:
        for name, config in PROTOCOLS.items():
            print(f"{rom}, {name}: differ {compare(rom, config, options.steps)} of {N * options.steps}", flush=True)
    for n_envs in options.n_envs:
        for kind in ("ale-py", "envpool"):
            again = [sys.executable, __file__, "--seconds", str(options.seconds), "--only", kind, str(n_envs)]
            measured = json.loads(subprocess.run(again, capture_output=True, text=True, check=True).stdout)
            print(f"{kind}, {n_envs} games: " + ", ".join(f"{k} {v:,.4g}" for k, v in measured.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
