"""Which cells of a grid show something else: for numpy arrays and tensors alike, so that workers need no torch."""

from typing import Any


def any_in_cells(pixels: Any, H: int, W: int) -> Any:
    """(*B, px_h, px_w) flags -> (*B, HW): whether any pixel of the cell is set. Cells are numbered row by row."""
    *lead, px_h, px_w = pixels.shape
    in_rows = pixels.reshape(*lead, H, px_h // H, px_w).any(-2)  # (*B, H, px_w)
    return in_rows.reshape(*lead, H * W, px_w // W).any(-1)
