"""Where `make play` spends its time: in the arithmetic of the networks, or around it?

    python scripts/profile_play.py [--method extrinsic] [--iterations 3]

Runs a few iterations of the run that `make play` trains, under PyTorch's profiler, on the CPU. Arithmetic is the time
inside matrix products, convolutions, normalisation, activations, products of pairs and the optimiser, of the policy and
of the control models as far as they make maps (they learn in another thread, which is not counted); all the rest is
Python, indexing, copies and the game. The profiler itself adds to the rest, so the true share is a little higher.
"""

import argparse
import time
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from megareward.cli.play import FRAMES, GAME
from megareward.control import pairs
from megareward.control.fast import folded
from megareward.training.config import TrainConfig
from megareward.training.loop import Trainer
from megareward.training.presets import with_preset

ARITHMETIC = (
    *("addmm", "mm", "bmm", "baddbmm", "convolution", "conv2d", "native_batch_norm", "batch_norm_backward"),
    *("relu", "clamp_min", "threshold_backward", "tanh", "softmax", "adam", "foreach", "im2col", "col2im"),
)


def is_arithmetic(name: str) -> bool:
    return any(word in name.lower() for word in ARITHMETIC)


PAIRS = "products of pairs"
"""Eq. 7 multiplies codes of two cells. That is a layer of the network, but its operations have names of all trades."""


def mark_pairs() -> None:
    plain = pairs.pair_product

    def marked(*args: Any, **options: Any) -> torch.Tensor:
        with record_function(PAIRS):
            return plain(*args, **options)

    folded.pair_product = marked  # what the tracker uses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="mega")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = with_preset(TrainConfig(method=options.method, game=GAME, frames=FRAMES, device="cpu"), "auto")
    trainer = Trainer(config, torch.device("cpu"))
    trainer.iteration = config.warmup_iterations  # the part in which the policy learns
    trainer.begin()
    trainer.iterate()
    mark_pairs()
    begun = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        for _ in range(options.iterations):
            trainer.iterate()
        wall = time.perf_counter() - begun
    operations = sorted(profiler.key_averages(), key=lambda op: -op.self_cpu_time_total)
    arithmetic = sum(op.self_cpu_time_total for op in operations if is_arithmetic(op.key)) / 1e6
    arithmetic += sum(op.cpu_time_total for op in operations if op.key == PAIRS) / 1e6
    for op in operations[:15]:
        mark = "arithmetic" if is_arithmetic(op.key) else ""
        print(f"{op.key[:44]:44} {op.count:7} calls {op.self_cpu_time_total / 1e4 / wall:6.1f} %  {mark}")
    print(f"{options.method} on {GAME}: {100 * arithmetic / wall:.1f} % of {wall:.1f} s in the networks' arithmetic")


if __name__ == "__main__":
    main()
