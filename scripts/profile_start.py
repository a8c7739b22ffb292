"""What takes the time from the command to the first training step of an Atari run?

    python scripts/profile_start.py [--game breakout] [--method mega] [--n-envs 256] [--rollout-steps 32]

Seconds on the clock and of the CPU (all threads of the process) for each part, in the order in which `megareward train`
does them; no run is written. The warm-up is left out, so that the first rollout is followed by a training step.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any


def timed(part: str, work: Callable[[], Any]) -> Any:
    clock, cpu = time.perf_counter(), cpu_seconds()
    result = work()
    print(f"{part:28} {time.perf_counter() - clock:7.2f} s {cpu_seconds() - cpu:7.2f} CPU s", flush=True)
    return result


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def load() -> None:
    import megareward.training.run  # noqa: F401


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="breakout")
    parser.add_argument("--method", default="mega")
    parser.add_argument("--n-envs", type=int, default=256)
    parser.add_argument("--rollout-steps", type=int, default=32)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    timed("imports", load)

    from megareward.training.config import TrainConfig
    from megareward.training.loop import Trainer
    from megareward.training.parts import make_game
    from megareward.training.presets import with_preset
    from megareward.training.run import pick_device

    config = with_preset(TrainConfig(method=options.method, game=options.game), "many")
    config = replace(config, n_envs=options.n_envs, rollout_steps=options.rollout_steps, warmup_steps=0)
    device = pick_device(options.device)
    env = timed("building the games", lambda: make_game(config, config.n_envs, device, in_groups=True))
    trainer = timed("building the networks", lambda: Trainer(config, device, env))
    timed("starting the games", trainer.begin)
    numbers, _ = timed("first rollout and its update", trainer.iterate)
    for name, seconds in numbers.items():
        if name.startswith("seconds/"):
            print(f"  {name.removeprefix('seconds/'):26} {seconds:7.2f} s")
    trainer.finish()
    env.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
