"""What takes the time of a learnt reward?

    python scripts/profile_rewards.py [--methods rnd curiosity emp sto div] [--n-envs 256] [--steps 32] [--device cuda]

Milliseconds of computing the reward of a rollout and of learning from it, on random frames, without any game; how many
kernels that takes, how long the device is busy with them, and which take longest. The device is idle where the second
number is well below the first.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from megareward.rewards.div import level_fields
from megareward.rollout import Recorded
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset
from megareward.world import World

EPISODE = 300
"""Steps, about; one in so many transitions crosses a reset."""


def random_rollout(T: int, N: int, device: torch.device, n_actions: int, span: int) -> Recorded:
    draw = torch.Generator(device).manual_seed(0)
    first = torch.rand(T + 1, N, generator=draw, device=device) < 1 / EPISODE
    skills, ages = torch.randint(4, (T + 1, N), generator=draw, device=device), torch.arange(T + 1, device=device)
    frames = torch.randint(256, (T + 1, N, 84, 84), generator=draw, device=device, dtype=torch.uint8)
    names = level_fields(0)
    fields = {names.skill: skills, names.drawn: (ages % span == 0)[:, None].expand(T + 1, N), names.start: frames}
    actions = torch.randint(n_actions, (T, N), generator=draw, device=device)
    never = torch.zeros_like(first)
    return Recorded(frames, actions, first, never, never, None, fields)


def profiled(what: str, work: Callable[[], Any], device: torch.device) -> None:
    on_gpu = device.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(3):
        work()
    wait()
    begun = time.perf_counter()
    for _ in range(5):
        work()
    wait()
    elapsed = (time.perf_counter() - begun) / 5
    if not on_gpu:
        print(f"{what:20} {1e3 * elapsed:8.1f} ms", flush=True)
        return
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
        wait()
    kernels = sorted(profile.key_averages(), key=lambda k: -k.self_device_time_total)
    busy, number = (sum(getattr(k, name) for k in kernels) for name in ("self_device_time_total", "count"))
    print(f"{what:20} {1e3 * elapsed:8.1f} ms, {number:6} kernels, device busy {busy / 1e3:8.1f} ms", flush=True)
    for k in kernels[:5]:
        print(f"    {k.self_device_time_total / 1e3:8.2f} ms {k.count:6} x {k.key[:90]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["rnd", "curiosity", "emp", "sto", "div"])
    parser.add_argument("--n-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    world = World(options.n_envs, 18, (84, 84), device, 0)
    for name in options.methods:
        config = with_preset(TrainConfig(method=name, game="seaquest"), "many")
        span = config.reward.spans[0] if name == "div" else config.rollout_steps
        recorded = random_rollout(options.steps, options.n_envs, device, world.n_actions, span)
        for term in config.method_row.build(config.reward, world):
            profiled(f"{name}, computing", partial(term.reward.compute, recorded), device)
            profiled(f"{name}, learning", partial(term.reward.update, recorded), device)


if __name__ == "__main__":
    main()
