"""Does a run that was carried to another machine go on as well as one that stayed?

    python scripts/moved_run.py extrinsic breakout --before 500k --after 1M
    python scripts/moved_run.py mega mini-breakout --before 75k --after 75k --seeds 5

For every seed: train for `--before` frames; `megareward export --small`; then let the run itself and its small copy go
on for `--after` frames each, and play whole games with both. All of it by the commands that a user would type. The
record has, for both, the scores of the last 50 games of training and of the whole games, and the sizes of the files.
Exit status 1 if the two differ by more than 2.6 standard errors of the games (1 %), or a file is larger than 16 MB.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from megareward.quantities import parse_count

LARGEST = 16_000_000
LAST = 50


def megareward(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "megareward.cli", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"megareward {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("game")
    parser.add_argument("--before", type=parse_count, required=True, help="frames until the run is carried away")
    parser.add_argument("--after", type=parse_count, required=True, help="frames from there on")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--whole-games", type=int, default=30)
    parser.add_argument("--runs", type=Path, default=Path("runs/moved"), help="where the runs live")
    parser.add_argument("--out", type=Path, help="write the record here")
    parser.add_argument("options", nargs="*", help="further options of megareward train, after --")
    return parser.parse_args()


def train(options: argparse.Namespace, seed: int) -> list[Path]:
    """One run until it is carried away; the folders of the one that stays and of its copy."""
    stays = options.runs / f"{options.game}-{options.method}-s{seed}"
    moves = stays.with_name(f"{stays.name}-moved")
    for folder in (stays, moves):
        if folder.exists():
            shutil.rmtree(folder)
    wanted = ("--game", options.game, "--frames", str(options.before), "--seed", str(seed), "--out", str(stays))
    megareward("train", options.method, *wanted, "--no-tensorboard", *options.options)
    megareward("export", str(stays), "--small", "--out", str(moves))
    return [stays, moves]


def carried(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}


def go_on(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What became of it after that."""
    megareward("resume", str(folder), "--frames", str(options.before + options.after), "--no-tensorboard")
    games = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    later = [game["score"] for game in games if game["frames"] > options.before]
    megareward("eval", str(folder), "--episodes", str(options.whole_games))
    whole = json.loads((folder / "eval.jsonl").read_text().splitlines()[-1])
    return {
        "score_before": float(np.mean([game["score"] for game in games if game["frames"] <= options.before][-LAST:])),
        "quarters": [float(np.mean(part)) for part in np.array_split(later, 4) if len(part)],
        "last_games": later[-LAST:],
        "whole_games": whole["scores"],
    }


def compared(stayed: list[float], moved: list[float]) -> dict[str, float]:
    """Means, and their difference in its standard errors; games are taken for independent."""
    means, errors = zip(*((np.mean(x), np.std(x, ddof=1) / len(x) ** 0.5) for x in (stayed, moved)), strict=True)
    distance = (means[1] - means[0]) / max(float(np.hypot(*errors)), 1e-9)
    numbers = (means[0], errors[0], means[1], errors[1], distance)
    names = ("stayed", "stayed_error", "moved", "moved_error", "difference_in_standard_errors")
    return {name: round(float(number), 3) for name, number in zip(names, numbers, strict=True)}


def main() -> int:
    options = parsed()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with ThreadPoolExecutor(options.jobs) as pool:
        pairs = list(pool.map(lambda seed: train(options, seed), seeds))
        sizes = carried(pairs[0][1])
        found = list(pool.map(lambda folder: go_on(options, folder), [folder for pair in pairs for folder in pair]))
    stayed, moved = found[::2], found[1::2]
    comparisons = {
        kind: compared(*([score for one in runs for score in one[kind]] for runs in (stayed, moved)))
        for kind in ("last_games", "whole_games")
    }
    config = json.loads((pairs[0][0] / "config.json").read_text())
    record = {
        "what": f"{options.method} on {options.game}, carried away after {options.before} frames, {options.after} more",
        "carried_bytes": sizes,
        "compared": comparisons,
        "runs": [{"stayed": a, "moved": b} for a, b in zip(stayed, moved, strict=True)],
        "config": config["config"],
        "provenance": config["provenance"],
    }
    print(json.dumps({name: record[name] for name in ("what", "carried_bytes", "compared")}, indent=1))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    too_large = max(sizes.values()) > LARGEST
    apart = any(abs(one["difference_in_standard_errors"]) > 2.6 for one in comparisons.values())
    return int(too_large or apart)


if __name__ == "__main__":
    sys.exit(main())
