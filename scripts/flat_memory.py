"""Does a run's memory stay flat? Train for a number of frames, look at the process from time to time, and say.

    python scripts/flat_memory.py --game breakout --preset many --frames 5M --json results/bench/memory.json

Ends with status 1 if resident host memory, or memory reserved on the GPU, grew by more than `--allowed` MiB from the
first quarter of the run to its end. The first quarter is for what is taken once: buffers, graphs, caches.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from megareward.quantities import parse_count
from megareward.runs.provenance import provenance
from megareward.training.config import TrainConfig, create_run
from megareward.training.logger import Logger
from megareward.training.loop import Trainer
from megareward.training.memory import host_mib
from megareward.training.presets import with_preset
from megareward.training.run import pick_device
from megareward.training.saving import tensors_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="mini-pong")
    parser.add_argument("--method", default="mega")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--frames", type=parse_count, default=200_000)
    parser.add_argument("--looks", type=int, default=40, help="how many times to look")
    parser.add_argument("--allowed", type=float, default=64.0, help="MiB of growth that is let pass")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    config = with_preset(TrainConfig(method=options.method, game=options.game, frames=options.frames), options.preset)
    config = replace(config, warmup_steps=0)
    device = pick_device(options.device)
    torch.set_num_threads(1)
    trainer = Trainer(config, device)
    looks: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = create_run(Path(scratch) / "run", config, {})
        logger = Logger(folder, 0, config.frames, tensorboard=True, quiet=True)
        begun = time.monotonic()
        trainer.begin()
        while trainer.iteration < config.iterations:
            numbers, episodes = trainer.iterate()
            logger.log(trainer.frames, numbers, episodes, trainer.score_book.mean)
            if trainer.iteration * options.looks // config.iterations > len(looks):
                tensors_of(trainer)  # as a checkpoint would
                gpu = torch.cuda.memory_reserved(device) / 2**20 if device.type == "cuda" else 0.0
                seconds = time.monotonic() - begun
                looks.append({"frames": trainer.frames, "seconds": seconds, "host_mib": host_mib(), "gpu_mib": gpu})
                print(f"{trainer.frames:12,} frames  {host_mib():8,.0f} MiB  GPU {gpu:8,.0f} MiB", flush=True)
        logger.close()
    trainer.env.close()
    settled = looks[len(looks) // 4 :]
    growth = {what: settled[-1][what] - settled[0][what] for what in ("host_mib", "gpu_mib")}
    flat = all(grown <= options.allowed for grown in growth.values())
    print(f"{'flat' if flat else 'NOT flat'}: host {growth['host_mib']:+.1f} MiB, GPU {growth['gpu_mib']:+.1f} MiB")
    if options.json:
        record = {"game": config.game, "method": config.method, "n_envs": config.n_envs, "frames": trainer.frames}
        record |= {"growth": growth, "looks": looks, "provenance": provenance(device)}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
