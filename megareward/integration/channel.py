"""g as one more channel of an observation, in the observation's own type and range."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from megareward.errors import UsageError
from megareward.integration.observations import FrameReader
from megareward.types import Float, Tensor

Array = NDArray[Any]


class GChannel:
    """Appends pictures of g to observations of one space. A single grey frame (h, w) becomes (2, h, w)."""

    def __init__(self, reader: FrameReader) -> None:
        shape = reader.shape
        if len(shape) == 4:
            raise UsageError(
                f"Observations have the shape {shape}: frames with channels of their own leave no place for g. Stack "
                f"the frames as channels, (c, h, w) or (h, w, c)."
            )
        self.low, self.high, self.whole = reader.low, reader.high, reader.whole
        self.flat = len(shape) == 2
        self.axis = reader.channel_axis
        stacked = (1, *shape) if self.flat else shape
        extended = list(stacked)
        extended[self.axis] += 1
        self.space = Box(self.low, self.high, tuple(extended), reader.space.dtype)

    def join(self, observations: Array, pictures: Float[Tensor, "B px_h px_w"]) -> Array:
        """(B, *shape) and (B, h, w) -> (B, *shape of the new space); g = 1 is white."""
        g = self.low + pictures.clamp(0, 1).cpu().numpy() * (self.high - self.low)
        g = (np.rint(g) if self.whole else g).astype(self.space.dtype)
        observations = np.asarray(observations, self.space.dtype)
        if self.flat:
            observations = observations[:, None]
        return np.concatenate([observations, np.expand_dims(g, self.axis)], self.axis)
