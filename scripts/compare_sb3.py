"""Does PPO of Stable-Baselines3 with our callback reach what our own loop reaches? Mega-reward only, same steps.

    python scripts/compare_sb3.py                     # mini-pong, 3 seeds, 200k steps each; about an hour
    python scripts/compare_sb3.py --steps 8192 --seeds 0 --out /tmp/compare.json

Both play with 32 environments, rollouts of 64, 20,000 steps of random play first, and the same network, rates and
discounts; g is a channel of the policy's input in both. The score of a run is the mean raw score of its last 50 games,
which no learner has seen. Written down: every run, the difference of the means, and its standard error over seeds.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from megareward.runs.provenance import provenance
from megareward.statistics.scores import RECENT
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset
from megareward.training.run import start

ROOT = Path(__file__).resolve().parents[1]


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sb3_mini_pong", ROOT / "examples" / "sb3_mini_pong.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_scores(steps: int, seed: int) -> list[float]:
    config = with_preset(TrainConfig(method="mega", game="mini-pong", frames=steps, seed=seed, device="cpu"), "mini")
    with tempfile.TemporaryDirectory() as folder:
        run = start(config, Path(folder) / "run", quiet=True, tensorboard=False)
        return [game["score"] for game in run.rows("scores.jsonl")]


def describe(name: str, seed: int, scores: list[float]) -> dict[str, Any]:
    last = scores[-RECENT:]
    record = {"loop": name, "seed": seed, "games": len(scores), "score": float(np.mean(last)) if last else None}
    print(f"{name:8} seed {seed}: {record['score']} over the last {len(last)} of {len(scores)} games", flush=True)
    return record


def summary(runs: list[dict[str, Any]]) -> dict[str, float | None]:
    """Means by loop, and their difference with its standard error over seeds (Welch)."""
    own, sb3 = (np.array([r["score"] for r in runs if r["loop"] == name], float) for name in ("own", "sb3"))
    out: dict[str, float | None] = {"own": own.mean(), "sb3": sb3.mean(), "difference": sb3.mean() - own.mean()}
    several = min(len(own), len(sb3)) > 1
    out["standard_error"] = float(np.sqrt(own.var(ddof=1) / len(own) + sb3.var(ddof=1) / len(sb3))) if several else None
    return out


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sb3" / "mini-pong-mega.json")
    args = parser.parse_args(words)
    torch.set_num_threads(1)
    sb3, runs = example(), []
    for seed in args.seeds:
        runs.append(describe("own", seed, own_scores(args.steps, seed)))
        runs.append(describe("sb3", seed, sb3.main(steps=args.steps, seed=seed)))
    versions = {"stable-baselines3": sys.modules["stable_baselines3"].__version__}
    record = {
        "game": "mini-pong",
        "method": "mega",
        "steps": args.steps,
        "runs": runs,
        "summary": summary(runs),
        "provenance": {**provenance(torch.device("cpu")), **versions},
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["summary"], indent=1), f"\nWrote {args.out}.")


if __name__ == "__main__":
    main(sys.argv[1:])
