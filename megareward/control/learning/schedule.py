"""When the control models learn from a rollout, and with which weights the tracker judges meanwhile.

    overlap off   collect rollout k, learn from it, collect rollout k + 1 with what was learnt
    overlap on    while rollout k + 1 is collected, learn from rollout k. The tracker judges rollout k + 1 with a copy,
                  the judge, that has learnt from the rollouts up to k - 1: one rollout less than without overlap.

The judge changes between rollouts only. What is learnt, and in which order, depends on the rollouts and on nothing
else, so a gradient step can be taken at any moment: on a GPU in the back lane, while the emulator works; on a CPU in a
thread of its own, where there is a core for it, or in the same gaps one after the other. The result is the same.
"""

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from megareward.control.learning.pending_update import Metrics, PendingUpdate
from megareward.control.models import ControlModels
from megareward.cuda.streams import CudaStreams
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Schedule:
    """Models that learn, and the judge that follows them one rollout behind (or none: then they judge themselves)."""

    def __init__(self, models: ControlModels, judge: ControlModels | None, streams: CudaStreams) -> None:
        self.models, self.judge, self.cuda_streams = models, judge, streams
        self._lesson: PendingUpdate | None = None
        self._learnt: Metrics = {}
        """Of the newest lesson that is over."""
        on_a_core_of_its_own = judge is not None and models.device.type == "cpu" and (os.cpu_count() or 1) > 1
        self._worker = ThreadPoolExecutor(1, "control") if on_a_core_of_its_own else None
        self._under_way: Future[Metrics] | None = None

    def take(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        first_here: Bool[Tensor, "T N"] | None = None,
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> Metrics:
        """A rollout is over. Returns what there is to say of the newest lesson: this one, or with a judge the last."""
        if self.judge is None:
            metrics = self.models.study(frames, actions, first, first_here, log_policy).finish()
            self.models.modules.eval()
            return metrics
        metrics = self.settle()
        with torch.no_grad():
            self.judge.follow(self.models)
        self._lesson = self.models.study(
            frames, actions, first, first_here, log_policy
        )  # copied before the next frame comes
        if self._worker is not None:
            self._under_way = self._worker.submit(self._lesson.finish)
        return metrics

    def go_on(self, moments_left: int) -> None:
        """Time to learn something, which comes as many times until the rollout is over."""
        if self._lesson is not None and self._under_way is None:
            with self.cuda_streams.side(), torch.enable_grad():  # whoever plays has no need of gradients
                self._lesson.go_on(moments_left)

    def settle(self) -> Metrics:
        """Learn what is left of the lesson. Whatever is launched afterwards sees the result."""
        if self._under_way is not None:
            self._learnt = self._under_way.result()
        elif self._lesson is not None:
            with self.cuda_streams.side(), torch.enable_grad():
                self._learnt = self._lesson.finish()
        self.cuda_streams.join()
        self._lesson = self._under_way = None  # only now may its memory be used again
        return self._learnt

    @property
    def threaded(self) -> bool:
        """Whether lessons run beside the caller on a CPU."""
        return self._worker is not None

    def state_dict(self) -> dict[str, Tensor]:
        """Beside the models' own state; to be called after `settle`."""
        assert self._lesson is None, "a lesson is under way: settle() first"
        if self.judge is None:
            return {}
        weights = {f"modules.{name}": tensor for name, tensor in self.judge.modules.state_dict().items()}
        scale = {f"normaliser.{name}": getattr(self.judge.normaliser, name) for name in ("mean", "std")}
        seen = {f"background.{name}": getattr(self.judge.background, name) for name in ("frame", "known")}
        return weights | scale | seen | {f"learnt.{name}": value for name, value in self._learnt.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """After the models' own state. Without a state of its own, as after a run without overlap, the judge knows what
        the models know."""

        def part(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}

        self.settle()
        self._learnt = {name: value.to(self.models.device) for name, value in part("learnt.").items()}
        if self.judge is None:
            return
        with torch.no_grad():
            self.judge.follow(self.models)
            if state:
                self.judge.modules.load_state_dict(part("modules."))
                self.judge.normaliser.mean.copy_(state["normaliser.mean"])
                self.judge.normaliser.std.copy_(state["normaliser.std"])
                if "background.frame" in state:  # else saved before there was one
                    self.judge.background.frame.copy_(state["background.frame"])
                    self.judge.background.known.copy_(state["background.known"])
