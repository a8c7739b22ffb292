"""Does a change of the code leave every number as it was? Short runs of every method with two trees, bit by bit.

    git worktree add build/before REV
    python scripts/same_numbers.py build/before .        about ten minutes on two cores

Metrics and scores must agree to the last digit, and every tensor that was learnt must be in the last checkpoint (by
content: names may change). Exit status 1 if anything differs.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MINI = "--game mini-pong --preset debug --frames 6k"
ATARI = "--game breakout --preset debug --frames 24k"
METHODS = ("mega", "dir", "rnd", "curiosity", "count", "extrinsic", "random")
RUNS = [
    *(f"{method} {game}" for method in METHODS for game in (MINI, ATARI)),
    f"mega {MINI} --g-channel yes",
    f"mega {MINI} --control.overlap off",
    f"mega {MINI} --control.overlap off --plain",
    f"mega {MINI} --control.latent.reward spread --g-channel yes",
    f"mega {MINI} --reward.no-end-takes-all",
    f"mega {ATARI} --g-channel auto",
    f"mega {ATARI} --env.groups 3",
    f"rnd {MINI} --g-channel yes",
    f"extrinsic {ATARI} --env.sticky 0.25",
    f"dir {MINI} --reward.form count",
    f"curiosity {MINI} --reward.features inverse",
    f"count {MINI} --reward.kind simhash --reward.normalise-frames 500",
    "mega --game mini-demon --preset mini --frames 30k --env.death-flash",
    "mega --game mini-breakout --preset paper --frames 5k --control.batch 256",
    "mega --game mini-breakout --preset released --frames 5k --policy.trunk small --control.batch 256",
    "rnd --game mini-breakout --preset mini --frames 30k --env.noisy-tv",
    "extrinsic --game mini-breakout --preset mini --frames 30k",
]


BESIDE = ("rollout.", "env.", "tracker.", "running.")
"""Tensors of the running games. They show in the next metrics; which of them are kept may change."""


def fingerprint(tree: Path, words: str) -> dict[str, Any]:
    """Train in a scratch folder; what is left of the run without the time it took."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "megareward.cli", "train", *words.split(), "--seed", "3", "--device", "cpu"]
        command += ["--checkpoint-minutes", "1000", "--out", str(run), "--quiet", "--no-tensorboard"]
        environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": done.stderr[-800:]}
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        metrics = [{k: v for k, v in row.items() if not k.startswith(("seconds/", "memory/"))} for row in rows]
        newest = max((run / "checkpoints").iterdir())
        return {
            "metrics": metrics,
            "scores": (run / "scores.jsonl").read_text(),
            "tensors": contents(newest / "tensors.safetensors"),
        }


def contents(path: Path) -> dict[str, str]:
    """Hash by name; read without any library, so that both trees are read alike."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    found = {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            kind = f"{about['dtype']}{about['shape']}".encode()
            found[name] = hashlib.sha256(kind + body[start:end]).hexdigest()[:12]
    return found


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not the same, in words."""
    if "failed" in before or "failed" in after:
        return [
            f"{name} failed: {run['failed']}" for name, run in (("before", before), ("after", after)) if "failed" in run
        ]
    found = []
    if before["scores"] != after["scores"]:
        found.append("scores")
    for row, (one, two) in enumerate(zip(before["metrics"], after["metrics"], strict=False)):
        if one != two:
            names = sorted(k for k in one.keys() | two.keys() if one.get(k) != two.get(k))
            found.append(f"metrics from row {row} of {len(before['metrics'])} on: {', '.join(names[:6])}")
            break
    if len(before["metrics"]) != len(after["metrics"]):
        found.append(f"{len(before['metrics'])} and {len(after['metrics'])} rows of metrics")
    left = Counter(before["tensors"].values()) - Counter(after["tensors"].values())
    names = [n for n, digest in before["tensors"].items() if digest in left and not n.startswith(BESIDE)]
    if names:
        found.append(f"{len(names)} tensors are gone: {', '.join(names[:6])}")
    return found


def main(before: Path, after: Path) -> int:
    """A tree, or a JSON file in which an earlier call has kept what one gave: TREE=FILE keeps it."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        sides = []
        for place in (before, after):
            tree, _, kept = str(place).partition("=")
            if tree.endswith(".json"):
                sides.append(json.loads(Path(tree).read_text()))
                continue
            found = pool.map(fingerprint, [Path(tree).resolve()] * len(RUNS), RUNS)
            sides.append(dict(zip(RUNS, found, strict=True)))
            if kept:
                Path(kept).write_text(json.dumps(sides[-1]))
    worst = 0
    for words in RUNS:
        found = differences(
            sides[0].get(words, {"failed": "never made"}), sides[1].get(words, {"failed": "never made"})
        )
        print(f"{'same     ' if not found else 'DIFFERENT'}  {words}")
        for line in found:
            print(f"             {line}")
        worst |= bool(found)
    return worst


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
