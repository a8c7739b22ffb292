"""Does a seed give the same run twice, with and without `--deterministic`, and what does that cost?

    python scripts/same_twice.py --device cuda         rnd, mega and extrinsic on Breakout, at most 90 s

Every method is trained twice with one seed, and all metrics are compared to the last bit, iteration by iteration. The
first eighth is random play, in which models learn and the policy does not. The two settings are two processes, since
cuBLAS is told once, before CUDA starts. If time runs short, the runs are cut off where they are, and the line says so.
Exit status 1 if runs part although they are deterministic, or a kernel refuses.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

METHODS = ("mega", "rnd", "extrinsic")
"""Mega first: its kernels are compiled and captured, and the others take what time is left."""


def config_of(options: argparse.Namespace, method: str, deterministic: bool) -> Any:
    """As with the preset `many`, but few environments."""
    from megareward.training.config import TrainConfig
    from megareward.training.presets import with_preset

    config = with_preset(TrainConfig(method, options.game, seed=options.seed), options.preset)
    return replace(
        config,
        frames=options.frames,
        device=options.device,
        deterministic=deterministic,
        n_envs=options.n_envs,
        warmup_steps=options.frames // (8 * config.env.frame_skip),
        env=config.env.with_groups(min(config.env.groups, options.n_envs)),
    )


def train(config: Any, iterations: int, seconds: float) -> tuple[list[dict[str, float]], float]:
    """Metrics of every iteration until one of the two is reached, and frames per second. Both times are those after the
    first iteration, in which graphs are captured and kernels compiled."""
    from megareward.training.loop import Trainer
    from megareward.training.run import pick_device

    trainer = Trainer(config, pick_device(config.device))
    rows: list[dict[str, float]] = []
    begun = 0.0
    try:
        trainer.begin()
        while len(rows) < iterations and (not rows or time.monotonic() - begun < seconds):
            numbers, _ = trainer.iterate()
            rows.append({name: x for name, x in numbers.items() if not name.startswith("seconds/")})
            begun = begun or time.monotonic()
        trainer.finish()
    finally:
        trainer.env.close()
    return rows, (len(rows) - 1) * config.frames_per_iteration / (time.monotonic() - begun)


def compare(options: argparse.Namespace, deterministic: bool) -> None:
    """In a process of its own: each method twice. Prints one line of JSON per method."""
    from megareward.cuda import determinism
    from megareward.errors import RunError

    until = time.monotonic() + options.seconds
    for n, method in enumerate(options.methods):
        share = (until - time.monotonic()) / (2 * (len(options.methods) - n))
        config = config_of(options, method, deterministic)
        try:
            with determinism.deterministic(deterministic):
                first, speed = train(config, config.iterations, share)
                second, again = train(config, len(first), float("inf"))
        except RunError as refused:
            print(json.dumps({"method": method, "refused": str(refused)}), flush=True)
            continue
        pairs = list(zip(first, second, strict=True))
        parted = next((i for i, (one, two) in enumerate(pairs) if one != two), None)
        names = [] if parted is None else [name for name, x in first[parted].items() if second[parted].get(name) != x]
        found = {
            "method": method,
            "compared": len(pairs) * config.frames_per_iteration,
            "parted": None if parted is None else parted * config.frames_per_iteration,
            "names": names[:4],
            "speed": max(speed, again),
        }
        print(json.dumps(found), flush=True)


def said(found: dict[str, Any], frames: int) -> str:
    if "refused" in found:
        return str(found["refused"])
    outcome = f"the same for all {found['compared']:,} frames"
    if found["parted"] is not None:
        outcome = f"part after {found['parted']:,} frames ({', '.join(found['names'])})"
    cut = "" if found["compared"] >= frames else f"; cut off at {found['compared']:,}"
    return f"{outcome}; {found['speed']:,.0f} frames/s{cut}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--game", default="breakout")
    parser.add_argument("--preset", default="many", help="one preset, or several with commas")
    parser.add_argument("--frames", type=int, default=120_000)
    parser.add_argument("--n-envs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=90.0, help="for everything together")
    parser.add_argument("--child", choices=("free", "deterministic"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        compare(options, options.child == "deterministic")
        return 0
    worst, until = 0, time.monotonic() + options.seconds
    for left, child in ((2, "free"), (1, "deterministic")):
        seconds = (until - time.monotonic()) / left - 6  # CUDA, torch and the compiler start in each
        words = [*sys.argv[1:], "--seconds", str(max(seconds, 1.0)), "--child", child]
        with subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                found = json.loads(line)
                print(f"{child:13}  {found['method']:9}  {said(found, options.frames)}", flush=True)
                worst |= child == "deterministic" and ("refused" in found or found["parted"] is not None)
        worst |= process.returncode != 0
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
