"""Microseconds per transition of the control models: the paper's plain form and ours, side by side in one run.

    megareward bench control --device cuda --variants all --json OUT

Where the floor is (4x4 cells of 21 pixels, stack 4, 1024 features; per transition, all 256 pairs)
--------------------------------------------------------------------------------------------------
Multiply-adds of one forward pass, in millions, with convolutions done as dense matrices (in brackets: as convolutions):

    per cell (16), two encoders   1764 x 1296 (0.13)   1296 x 1152 (0.29)   1152 x 1024       2 * 16 * 4.96 = 159
    per pair (256), Phi           1024 x 1152          1152 x 1296 (0.29)   1296 x 441 (0.03)     256 * 3.24 = 831
    per pair (256), Gamma         1024 x 512                                                     256 * 0.52 = 134

Forward and backward are three such passes: 2 * 3 * 1124e6 = 6.7 GFLOP (2.9 as convolutions). At 650 TFLOP/s, about what
bf16 products of these shapes reach on an H200, that is 10 us. With a share q of the pairs attended, Phi shrinks to q.

Bytes, in bf16 and with every step between two products fused into one kernel per pass: a BatchNorm + LeakyReLU over a
row of k numbers moves 3k forward (statistics, then read and write) and 5k backward; a product of pairs writes F and
reads F back as a gradient; Eq. 6 reads `pixels` twice and writes them once.

    per pair   Phi 8 * (1152 + 1296) + 2 * 1024 + 3 * 441, Gamma 10 * 512 + 2 * 1024 numbers   = 30,075 -> 60 KB
    256 pairs  15 MB, and half as much again where the products read and write their operands from memory

At 4 TB/s that is 4 to 6 us. So 14 to 16 us for all pairs, and about 6 us where a quarter of them is attended.
"""

import gc
import platform
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch

from megareward.bench.control_variants import (
    CPU_VARIANTS,
    INFERENCE_VARIANTS,
    TRAINING_VARIANTS,
    VARIANTS,
    Variant,
    attended_share,
    build,
    frames_like_a_game,
    sharpen,
)
from megareward.control.learning.learner import ControlLearner
from megareward.control.learning.replay import Transitions
from megareward.control.models import ControlModels
from megareward.errors import UsageError, suggestion
from megareward.observers.tracker import ControlTracker
from megareward.types import Tensor


def seconds_per_call(call: Callable[[], object], device: torch.device, budget: float) -> float:
    """The shortest time of as many calls as the budget allows, at least 3, after warming up."""

    def once() -> float:
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    for _ in range(2 if device.type == "cuda" else 1):
        last = once()
    repeats = int(min(max(budget / last, 3), 100))
    return min(once() for _ in range(repeats))


def training_step(models: ControlModels, variant: Variant, batch: Transitions, rtm_only: bool) -> Callable[[], object]:
    """A function that does one gradient step, from uint8 frames to Adam: of RTM, or of ADM and RTM."""
    models.modules.train()
    learner = ControlLearner(models)
    randomness = learner.draw_randomness(len(batch.actions), learner.noise)
    optimiser = torch.optim.Adam(
        (models.rtm if rtm_only else models.modules).parameters(),
        lr=models.config.learning_rate,
        betas=models.config.betas,
        fused=True,
        capturable=variant.graph,
    )

    def loss() -> Tensor:
        rtm = learner.rtm_loss(batch, randomness)[0]
        return rtm if rtm_only else rtm + learner.adm_loss(batch)[0]

    loss_of = torch.compile(loss) if variant.compile else loss

    def step() -> None:
        optimiser.zero_grad()
        loss_of().backward()
        optimiser.step()

    if not variant.graph:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def bench_training(variant: Variant, batch_size: int, device: torch.device, budget: float) -> dict[str, Any]:
    models, batch = build(variant, device), frames_like_a_game(batch_size, device)
    models.normaliser.observe(batch.now)
    if variant.attended:
        models.modules.train()
        sharpen(models, batch, variant.attended)
    row: dict[str, Any] = {"what": "train", "variant": variant.name, "batch": batch_size}
    for key, rtm_only in (("us_per_transition", False), ("rtm_us", True)):
        if variant.compile and rtm_only:
            continue  # compiling once is slow enough
        start = time.perf_counter()
        step = training_step(models, variant, batch, rtm_only)
        step()
        row.setdefault("start_s", time.perf_counter() - start)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        row[key] = 1e6 * seconds_per_call(step, device, budget) / batch_size
        if device.type == "cuda":
            row.setdefault("peak_gib", torch.cuda.max_memory_allocated(device) / 2**30)
    row["attended"] = attended_share(models, batch)
    return row


def bench_inference(variant: Variant, n_envs: int, device: torch.device, budget: float) -> dict[str, Any]:
    """A step of the tracker: both attention maps (Eq. 2-3 and 7-8) and g, from bytes."""
    models, batch = build(variant, device), frames_like_a_game(n_envs, device)
    models.normaliser.observe(batch.now)
    tracker = ControlTracker(models, n_envs)
    first = torch.zeros(n_envs, dtype=torch.bool, device=device)

    def step() -> object:
        return tracker.step(batch.stack, batch.actions, first)

    row: dict[str, Any] = {"what": "attend", "variant": variant.name, "batch": n_envs}
    step()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    row["us_per_transition"] = 1e6 * seconds_per_call(step, device, budget) / n_envs
    if device.type == "cuda":
        row["peak_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return row


def guarded(bench: Callable[..., dict[str, Any]], name: str, batch: int, *rest: Any) -> dict[str, Any]:
    """Run a benchmark, and return a row even if it fails. Every exception is caught: each variant depends on another
    compiler or library, its failure is a result of the comparison, and the others must still be measured."""
    try:
        row = bench(VARIANTS[name], batch, *rest)
    except Exception as error:
        last_frames = traceback.format_exc().splitlines()[-6:]
        row = {"variant": name, "batch": batch, "error": f"{type(error).__name__}: {error}"[:400], "where": last_frames}
        row["what"] = "train" if bench is bench_training else "attend"
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return row


def ceilings(device: torch.device) -> dict[str, float]:
    """Peak speeds of this GPU: matrix products in bf16, and copies in memory."""
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    x = torch.empty(2**30, device=device, dtype=torch.uint8)
    y = torch.empty_like(x)
    return {
        "bf16_tflops": 2 * 8192**3 / seconds_per_call(lambda: a @ a, device, 0.3) / 1e12,
        "copy_tb_per_s": 2 * x.numel() / seconds_per_call(lambda: y.copy_(x), device, 0.3) / 1e12,
    }


def profile(variant: Variant, batch_size: int, device: torch.device, n_steps: int = 3) -> str:
    """Time of a training step by kernel, as text."""
    models, batch = build(variant, device), frames_like_a_game(batch_size, device)
    models.normaliser.observe(batch.now)
    if variant.attended:
        models.modules.train()
        sharpen(models, batch, variant.attended)
    step = training_step(models, variant, batch, rtm_only=False)
    for _ in range(3):
        step()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as recorded:
        for _ in range(n_steps):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    key = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    events = sorted(recorded.key_averages(), key=lambda e: -getattr(e, key))
    if device.type == "cuda":  # kernels only: what PyTorch's operators launched is counted there
        on_device = (e for e in events if e.device_type == torch.autograd.DeviceType.CUDA)
        events = [e for e in on_device if not getattr(e, "is_user_annotation", False)]
    total = sum(getattr(e, key) for e in events)
    per = n_steps * batch_size
    lines = [f"{variant.name}, batch {batch_size}: {total / per:.2f} us per transition on the device, of which"]
    lines += [
        f"  {spent / per:7.3f} us  {100 * spent / total:5.1f}%  {count // n_steps:4d}x  {name[:110]}"
        for spent, count, name in ((getattr(e, key), e.count, e.key) for e in events[:28])
    ]
    return "\n".join(lines)


def bench_control(
    device: torch.device | str = "cpu",
    batches: tuple[int, ...] = (),
    n_envs: int | None = None,
    variants: tuple[str, ...] = (),
    seconds: float | None = None,
    budget_s: float = 170.0,
    with_profile: bool = False,
) -> dict[str, Any]:
    """All measurements as one dictionary: machine, ceilings, rows, profile. Prints each row when it is measured.

    batches: transitions per gradient step; if empty, 256 and 1024 on a GPU, 16 on a CPU.
    n_envs: environments per step of inference; if None, 256 on a GPU, 16 on a CPU.
    variants: names in `VARIANTS`; if empty, those that suit the device.
    seconds: length of each measurement; if None, 0.5 on a GPU, 4 on a CPU.
    budget_s: time limit; variants with torch.compile are skipped if less than a minute of it is left.
    with_profile: also show the time of the fastest training step by kernel.
    """
    device, start = torch.device(device), time.perf_counter()
    on_gpu = device.type == "cuda"
    names = variants or (TRAINING_VARIANTS if on_gpu else CPU_VARIANTS)
    for name in names:
        if name not in VARIANTS:
            raise UsageError(f"There is no variant {name}.{suggestion(name, VARIANTS)} Known: {', '.join(VARIANTS)}.")
    batches = batches or ((256, 1024) if on_gpu else (16,))
    n_envs = n_envs or (256 if on_gpu else 16)
    each = seconds or (0.5 if on_gpu else 4.0)
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "rows": [],
    }
    if on_gpu:
        result["ceilings"] = ceilings(device)
        print(result["ceilings"], flush=True)

    def record(row: dict[str, Any]) -> None:
        result["rows"].append(row)
        print(line(row), flush=True)

    print(HEADER)
    for name in INFERENCE_VARIANTS if on_gpu else ("plain", "once"):
        record(guarded(bench_inference, name, n_envs, device, each))
    for name in names:
        sizes = (64,) if on_gpu and VARIANTS[name].plain else batches
        for size in sizes[-1:] if VARIANTS[name].compile else sizes:
            spent = time.perf_counter() - start
            if VARIANTS[name].compile and spent > budget_s - 60:
                record({"what": "train", "variant": name, "batch": size, "error": f"left out: {spent:.0f} s are spent"})
                continue
            record(guarded(bench_training, name, size, device, each))
    if with_profile:
        timed = [r for r in result["rows"] if r["what"] == "train" and "error" not in r]
        best = min(timed, key=lambda r: r["us_per_transition"])
        result["profile"] = profile(VARIANTS[best["variant"]], best["batch"], device)
        print(result["profile"])
        every_pair = {v.name for v in VARIANTS.values() if not (v.attended or v.mixture or v.local)}
        everything = [r for r in timed if r["variant"] in every_pair]
        best_of_all_pairs = min(everything, key=lambda r: r["us_per_transition"], default=best)
        if best_of_all_pairs is not best:
            variant = VARIANTS[best_of_all_pairs["variant"]]
            result["profile_all_pairs"] = profile(variant, best_of_all_pairs["batch"], device)
            print(result["profile_all_pairs"])
    result["seconds"] = time.perf_counter() - start
    return result


COLUMNS = (("us_per_transition", "us/transition", 15), ("rtm_us", "RTM alone", 11), ("peak_gib", "peak GiB", 10),
           ("attended", "attended", 10), ("start_s", "start s", 9))  # fmt: skip
HEADER = f"{'what':8}{'variant':30}{'batch':>6}" + "".join(f"{title:>{width}}" for _, title, width in COLUMNS)


def line(row: dict[str, Any]) -> str:
    head = f"{row['what']:8}{row['variant']:30}{row['batch']:6d}"
    if "error" in row:
        return f"{head}  {row['error'][:160]}"
    cells = [f"{row[key]:{width}.2f}" if key in row else f"{'-':>{width}}" for key, _, width in COLUMNS]
    return head + "".join(cells)
