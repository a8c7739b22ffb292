"""Maps of an episode to be scored, whatever made them."""

from dataclasses import dataclass

from megareward.types import Float, Tensor


@dataclass(frozen=True)
class Maps:
    """The maps of one episode, indexed by the frame they are about. None: there is no such map. Larger values
    mean more control; only their order within a frame counts."""

    direct: Float[Tensor, "T_plus_1 HW"] | None = None
    """Control of the last action."""
    g: Float[Tensor, "T_plus_1 HW"] | None = None
    """Control of all actions so far."""
    handed_on: Float[Tensor, "T_plus_1 HW"] | None = None
    """Control of all actions but the last that the cell took over in the step to this frame, without what it kept."""
    influence: Float[Tensor, "T_plus_1 L HW"] | None = None
    """Control of the action n steps ago, at [t, n - 1]."""
    relation: Float[Tensor, "T_plus_1 HW HW"] | None = None
    """[t, to, from]: how far the cell `to` follows from the cell `from` of the frame before."""
