"""When the control models learn from a rollout, and with which weights maps are made meanwhile.

    overlap off   collect rollout k, learn from it, collect rollout k + 1 with what was learnt
    overlap on    while rollout k + 1 is collected, learn from rollout k. Maps of rollout k + 1 are made by a lagged
                  copy of the models that has learnt from the rollouts up to k - 1: one less than without overlap.

The lagged copy changes between rollouts only. What is learnt, and in which order, depends on the rollouts and on
nothing else, so a gradient step can be taken at any moment: on a GPU in the side stream, while the emulator works; on a
CPU in a thread of its own, where there is a core for it, or in the same gaps one after the other. The result is the
same.
"""

import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from megareward.control.learning.learner import ControlLearner
from megareward.control.learning.pending_update import Metrics, PendingUpdate
from megareward.control.models import ControlModels
from megareward.cuda.streams import CudaStreams
from megareward.state import State, joined, part
from megareward.types import Bool, Float, Int, Tensor, UInt8


class Schedule:
    """A learner, and the lagged copy of its models (or none: then its own models make the maps)."""

    def __init__(self, learner: ControlLearner, lagged: ControlModels | None, streams: CudaStreams) -> None:
        self.learner, self.lagged, self.cuda_streams = learner, lagged, streams
        self._pending: PendingUpdate | None = None
        self._metrics: Metrics = {}
        """Of the newest finished update."""
        on_a_core_of_its_own = lagged is not None and learner.device.type == "cpu" and (os.cpu_count() or 1) > 1
        self._worker = ThreadPoolExecutor(1, "control") if on_a_core_of_its_own else None
        self._under_way: Future[Metrics] | None = None

    def begin(
        self,
        frames: UInt8[Tensor, "L N px_h px_w"],
        actions: Int[Tensor, "T N"],
        first: Bool[Tensor, "L N"],
        first_on_cpu: Bool[Tensor, "T N"] | None = None,
        log_policy: Float[Tensor, "T N A"] | None = None,
    ) -> Metrics:
        """Learn from a rollout. Returns metrics of the newest finished update: this one, or with overlap the last."""
        if self.lagged is None:
            metrics = self.learner.begin_update(frames, actions, first, first_on_cpu, log_policy).finish()
            self.learner.models.modules.eval()
            return metrics
        metrics = self.finish()
        with torch.no_grad():
            self.lagged.copy_from(self.learner.models)
        # The rollout is copied before the next frame comes.
        self._pending = self.learner.begin_update(frames, actions, first, first_on_cpu, log_policy)
        if self._worker is not None:
            self._under_way = self._worker.submit(self._pending.finish)
        return metrics

    def work(self, steps_left: int) -> None:
        """Take some of the pending gradient steps; `steps_left` calls are left until the rollout is over."""
        if self._pending is not None and self._under_way is None:
            with self.cuda_streams.side(), torch.enable_grad():  # the caller collects without gradients
                self._pending.work(steps_left)

    def finish(self) -> Metrics:
        """Take the remaining gradient steps. Work launched afterwards sees the result."""
        if self._under_way is not None:
            self._metrics = self._under_way.result()
        elif self._pending is not None:
            with self.cuda_streams.side(), torch.enable_grad():
                self._metrics = self._pending.finish()
        self.cuda_streams.join()
        self._pending = self._under_way = None  # only now may its memory be used again
        return self._metrics

    @property
    def threaded(self) -> bool:
        """Whether updates run beside the caller on a CPU."""
        return self._worker is not None

    def state_dict(self) -> State:
        """The learner's and, with overlap, the lagged copy's; to be called after `finish`."""
        assert self._pending is None, "an update is pending: finish() first"
        state = self.learner.state_dict()
        if self.lagged is not None:
            state |= joined(lagged=self.lagged.state_dict(), metrics=self._metrics)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Without a lagged copy in the state, as after a run without overlap, it equals the learner's models."""
        self.finish()
        self.learner.load_state_dict(state)
        self._metrics = {name: value.to(self.learner.device) for name, value in part(state, "metrics").items()}
        if self.lagged is not None:
            with torch.no_grad():
                self.lagged.copy_from(self.learner.models)
                if own := part(state, "lagged"):
                    self.lagged.load_state_dict(own)
