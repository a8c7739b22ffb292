"""Relations by sight: an RTM whose Phi is a convolution that sees one cell and draws what happens in and around it.

In Eq. 6 Phi guesses a cell of the new frame from one cell of the old one, the action and the offset between the two.
`rtm.RTM` uses the paper's networks for that: a cell becomes a code, and a ball that leaves a cell at the top must be
learnt separately from one that moves on inside it. Here Phi is a small convolution over the cell's surroundings, with
everything but the cell itself blank. Things move the same way everywhere, so what was learnt about a ball in the middle
of a cell also holds at its border, where control passes to the next cell.

  draw      every cell `from` draws the change s_t - s_{t-1} of all pixels no further from it than `reach`
  learn     the squared error of the drawings, each source on its own
  attend    each changed pixel is divided among the sources that can reach it, by how well they drew it (the posterior
            of a mixture in which one source draws each pixel); a cell's relation is the mean over its changed pixels,
            each weighted by how much its best drawing explains

Eq. 7-8 are not needed: once the new frame is there, it is known which source drew it best. An unchanged cell relies on
itself, and so does one of which no source explains anything. A source draws nothing beyond `reach`, so a cell relies on
its neighbours only, and on none that showed nothing but background: in the older frames of such a cell
Phi still sees what has left it, but control is to be passed on from the cell where a thing was last.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.config import RtmConfig
from megareward.control.grid import Grid
from megareward.types import Bool, Float, Int, Shaped, Tensor

KERNELS = (5, 5, 3)
"""Sides of the three convolutions; together they see pixels up to 5 away."""
NOISE = 16 / 255
"""Standard deviation of a pixel around what its source drew, as a share of the range from black to white."""

DOUBT = 1.0
"""Weight of the cell itself in its relation, in nats, beside the nats that the sources explain of it."""
LOWEST = -1e30
"""Log-likelihood of sources that do not draw a pixel; finite, so that a softmax over such sources alone is no NaN."""


class Window(NamedTuple):
    """A cell with its surroundings along one axis, in pixels."""

    cell: int
    reach: int
    side: int
    """cell + 2 * reach, or a pixel or two more, for blocks to fit."""


def window(cell: int, block: int) -> Window:
    reach = min(block * sum(kernel // 2 for kernel in KERNELS), cell)
    return Window(cell, reach, -(-(cell + 2 * reach) // block) * block)


class LocalRTM(nn.Module):
    """Phi for all sources at once. Frames come scaled, as the other models see them."""

    own: Tensor
    inside: Tensor

    def __init__(self, grid: Grid, config: RtmConfig, n_actions: int) -> None:
        super().__init__()
        self.grid, self.config = grid, config
        self.block = max(1, round(min(grid.cell_h, grid.cell_w) / 10))
        """Side of the blocks of pixels that the convolutions see as one position with more features: things on a large
        screen move farther, in pixels."""
        self.rows, self.columns = window(grid.cell_h, self.block), window(grid.cell_w, self.block)
        C, squares = config.local_features, self.block**2
        self.enter = nn.Conv2d(config.stack * squares, C, KERNELS[0], padding="same")
        self.action = nn.Embedding(n_actions, C)
        self.inner = nn.Conv2d(C, C, KERNELS[1], padding="same")
        self.leave = nn.Conv2d(C, squares, KERNELS[2], padding="same")
        own = torch.zeros(self.rows.side, self.columns.side)
        own[self.rows.reach :, self.columns.reach :][: grid.cell_h, : grid.cell_w] = 1
        self.register_buffer("own", own, persistent=False)
        """1 on the pixels of the cell itself."""
        inside = self.windows(torch.ones(1, grid.px_h, grid.px_w))[0]
        self.register_buffer("inside", inside, persistent=False)
        """(HW, side_h, side_w): 0 on what lies beyond the screen."""
        around = torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2))
        self.up_down, self.left_right = around.unbind(1)
        """(9,) steps to a cell's neighbours and itself: no source reaches farther."""

    def cut(self, frames: Shaped[Tensor, "*B px_h px_w"]) -> Shaped[Tensor, "*B H W side_h side_w"]:
        """Every cell with its surroundings, as a view; zeros beyond the screen."""
        (_, up, side_h), (_, left, side_w) = self.rows, self.columns
        down, right = side_h - up - self.grid.cell_h, side_w - left - self.grid.cell_w
        padded = F.pad(frames, (left, right, up, down))
        return padded.unfold(-2, side_h, self.grid.cell_h).unfold(-2, side_w, self.grid.cell_w)

    def windows(self, frames: Shaped[Tensor, "*B px_h px_w"]) -> Shaped[Tensor, "*B HW side_h side_w"]:
        """`cut` as a copy, which is several times as large as the frames."""
        return self.cut(frames).flatten(-4, -3)

    def windows_of(
        self, stack: Shaped[Tensor, "N K px_h px_w"], n: Int[Tensor, "M"], cells: Int[Tensor, "M"]
    ) -> Shaped[Tensor, "M K side_h side_w"]:
        """The windows of M cells, each of the sample `n`."""
        return self.cut(stack)[n, :, cells // self.grid.W, cells % self.grid.W]

    def draw(
        self, seen: Float[Tensor, "M K side_h side_w"], actions: Int[Tensor, "M"]
    ) -> Float[Tensor, "M side_h side_w"]:
        """The predicted change around each source, from its own cell in the last K frames and the action."""
        x = self.enter(F.pixel_unshuffle(seen * self.own, self.block))
        x = F.relu(x + self.action(actions)[:, :, None, None].to(x.dtype))
        return F.pixel_shuffle(self.leave(F.relu(self.inner(x))), self.block)[:, 0]

    def loss(
        self,
        stack: Float[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: Float[Tensor, "N px_h px_w"],
        sources: Int[Tensor, "N S"],
    ) -> Float[Tensor, ""]:
        """The squared error of the chosen sources' drawings, summed over what they can reach, per pixel of a cell."""
        N, S = sources.shape
        n, cells = torch.arange(N, device=sources.device).repeat_interleave(S), sources.flatten()
        seen = self.windows_of(stack, n, cells)  # (N S, K, side_h, side_w)
        change = self.windows_of((now - stack[:, -1])[:, None], n, cells)[:, 0]  # (N S, side_h, side_w)
        drawn = self.draw(seen, actions[n]).float()
        error = (drawn - change).square() * self.inside[cells]
        return error.sum((1, 2)).mean() / (self.grid.cell_h * self.grid.cell_w)

    def sources(
        self, changed: Bool[Tensor, "N px_h px_w"], priorities: Float[Tensor, "N HW"], S: int
    ) -> Int[Tensor, "N S"]:
        """S cells to learn from: first those around which anything changed, then others; among equals at random."""
        return (self.near(changed) + priorities).topk(S, -1).indices

    def near(self, changed: Bool[Tensor, "N px_h px_w"]) -> Float[Tensor, "N HW"]:
        """1 where anything changed in a cell or around it."""
        return self.windows(changed.float()).amax((-2, -1))

    def attend(
        self,
        stack: Float[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: Float[Tensor, "N px_h px_w"],
        changed: Bool[Tensor, "N px_h px_w"],
        empty: Bool[Tensor, "N HW"],
        scale: Float[Tensor, ""] | float,
    ) -> Float[Tensor, "N HW HW"]:
        """The relation [to, from]; rows sum to 1. `empty`: cells that showed nothing but background in the last frame.
        `scale` is the range of the observation from black to white."""
        even = self.config.local_credit == "even"
        asked = torch.ones_like(empty) if even else ~empty
        share_out = self.share_out_everywhere if stack.is_cuda else self.share_out_changed
        shares = share_out(stack, actions, now - stack[:, -1], changed, asked, NOISE * scale)
        itself, total = torch.eye(self.grid.n_cells, device=now.device), shares.sum(-1, keepdim=True)
        if even:
            return torch.where(total > 0, shares / total.clamp(min=1), itself)
        return (shares + DOUBT * itself) / (total + DOUBT)

    def share_out_everywhere(
        self,
        stack: Float[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        change: Float[Tensor, "N px_h px_w"],
        changed: Bool[Tensor, "N px_h px_w"],
        asked: Bool[Tensor, "N HW"],
        noise: Float[Tensor, ""] | float,
    ) -> Float[Tensor, "N HW HW"]:
        """The weight that each cell's changed pixels give to each source in `asked`, [to, from]. Computed for all
        pixels of the screen and all sources, so that the host never waits for a GPU."""
        grid, (N, HW) = self.grid, (len(stack), self.grid.n_cells)
        (_, up, side_h), (_, left, side_w) = self.rows, self.columns
        windows = self.windows(stack).transpose(1, 2).flatten(0, 1)  # (N HW, K, side_h, side_w)
        drawn = self.draw(windows, actions.repeat_interleave(HW)).float().unflatten(0, (N, HW))
        likely = torch.where(asked[:, :, None, None], log_likelihood(drawn, self.windows(change), noise), LOWEST)
        screen = likely.new_full((N, HW, grid.px_h + side_h, grid.px_w + side_w), LOWEST)
        for cell in range(HW):  # each drawing at its place on the screen
            y, x = cell // grid.W * grid.cell_h, cell % grid.W * grid.cell_w
            screen[:, cell, y : y + side_h, x : x + side_w] = likely[:, cell]
        screen = screen[:, :, up : up + grid.px_h, left : left + grid.px_w]  # (N, from, px_h, px_w)
        weight = self._weight(screen.amax(1), change, noise) * changed  # (N, px_h, px_w)
        return grid.to_cells(screen.softmax(1) * weight[:, None]).sum((-2, -1)).transpose(1, 2)

    def share_out_changed(
        self,
        stack: Float[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        change: Float[Tensor, "N px_h px_w"],
        changed: Bool[Tensor, "N px_h px_w"],
        asked: Bool[Tensor, "N HW"],
        noise: Float[Tensor, ""] | float,
    ) -> Float[Tensor, "N HW HW"]:
        """The same, computed only for the changed pixels, which are few, and the sources that can reach them."""
        grid, HW = self.grid, self.grid.n_cells
        n, y, x = changed.nonzero().unbind(1)  # (P,)
        source_y, source_x = y[:, None] // grid.cell_h + self.up_down, x[:, None] // grid.cell_w + self.left_right
        at_y = y[:, None] - source_y * grid.cell_h + self.rows.reach  # (P, 9) in the source's window
        at_x = x[:, None] - source_x * grid.cell_w + self.columns.reach
        on_screen = within(source_y, grid.H) & within(source_x, grid.W)
        reached = on_screen & within(at_y, self.rows.side) & within(at_x, self.columns.side)
        source = torch.where(on_screen, source_y * grid.W + source_x, 0)
        reached &= asked[n[:, None], source]
        pixel, nth = reached.nonzero().unbind(1)  # (Q,)
        whose = n[pixel] * HW + source[pixel, nth]
        drawing, drawn_as = whose.unique(return_inverse=True)
        if len(drawing) == 0:  # PyTorch makes no blocks of an empty batch
            return stack.new_zeros(len(stack), HW, HW)
        drawn = self.draw(self.windows_of(stack, drawing // HW, drawing % HW), actions[drawing // HW]).float()
        of_pixel = change[n, y, x]  # (P,)
        likely = change.new_full(reached.shape, LOWEST)
        drawn_there = drawn[drawn_as, at_y[pixel, nth], at_x[pixel, nth]]
        likely[pixel, nth] = log_likelihood(drawn_there, of_pixel[pixel], noise)
        given = likely.softmax(1) * self._weight(likely.amax(1), of_pixel, noise)[:, None]  # (P, 9)
        to = n * HW + y // grid.cell_h * grid.W + x // grid.cell_w
        shares = stack.new_zeros(len(stack) * HW * HW)
        shares.index_add_(0, (to[:, None] * HW + source).flatten(), given.flatten())
        return shares.view(len(stack), HW, HW)

    def _weight(
        self, best: Float[Tensor, "*B"], change: Float[Tensor, "*B"], noise: Float[Tensor, ""] | float
    ) -> Float[Tensor, "*B"]:
        """Weight of each pixel: the nats of its change that the `best` drawing explains, or 1 for all."""
        if self.config.local_credit == "even":
            return torch.ones_like(best)
        return (best - log_likelihood(torch.zeros_like(change), change, noise)).clamp(min=0)


def log_likelihood(
    drawn: Float[Tensor, "*B"], change: Float[Tensor, "*B"], noise: Float[Tensor, ""] | float
) -> Float[Tensor, "*B"]:
    """Log-likelihood of a pixel's change given what was drawn, up to a constant."""
    return -((drawn - change) / noise).square() / 2


def within(index: Int[Tensor, "*B"], size: int) -> Bool[Tensor, "*B"]:
    return (index >= 0) & (index < size)
