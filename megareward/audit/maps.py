"""What is scored: maps of an episode, whoever made them."""

from dataclasses import dataclass

from megareward.types import Float, Tensor


@dataclass(frozen=True)
class Maps:
    """The maps of one episode, indexed by the frame they are about. None: they say nothing about this. Larger values
    mean more control; only their order within a frame counts."""

    direct: Float[Tensor, "T_plus_1 HW"] | None = None
    """Of the last action."""
    g: Float[Tensor, "T_plus_1 HW"] | None = None
    """Of all actions so far."""
    handed_on: Float[Tensor, "T_plus_1 HW"] | None = None
    """Of all actions but the last, as far as the cell took it over in the step to this frame and did not just keep it.
    """
    influence: Float[Tensor, "T_plus_1 L HW"] | None = None
    """Of the action n steps ago, at [t, n - 1]."""
    relation: Float[Tensor, "T_plus_1 HW HW"] | None = None
    """[t, to, from]: how far the cell `to` follows from the cell `from` of the frame before."""
