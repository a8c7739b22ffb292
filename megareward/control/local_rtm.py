"""Relations by sight: an RTM whose Phi is a convolution that sees one cell and draws what happens in and around it.

In Eq. 6 Phi guesses a cell of the new frame from one cell of the old one, the action and the offset between the two.
`rtm.RTM` takes the paper's networks for that: a cell becomes a code, and a ball that leaves a cell at the top must be
learnt apart from one that moves on inside it. Here Phi is a small convolution over the cell's surroundings, in which
all but the cell itself is blank. Things move the same way everywhere, so that what was learnt of a ball in the middle
of a cell holds at its border, where control changes hands.

  draw      every cell `from` draws the change s_t - s_{t-1} of all pixels no further from it than `reach`
  learn     the squared error of the drawings, each source on its own
  attend    each pixel that changed is shared out among those who could draw it, by how well they did (the posterior
            of a mixture in which one source paints each pixel); a cell's relation is the mean over its changed pixels,
            each counted by how much its best drawing explains

Eq. 7-8 are not needed: whoever drew it best is known once the frame is there. A cell that shows what it showed relies
on itself, and so does one of which nobody could explain anything. Beyond `reach` a source draws nothing: no cell relies
on one that is not its neighbour. Nor on one that showed nothing but background: Phi still sees there what left it some
steps ago, but it is from the cell where a thing was that control is taken on.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.config import RtmConfig
from megareward.control.grid import Grid
from megareward.types import Bool, Float, Int, Shaped, Tensor

KERNELS = (5, 5, 3)
"""Sides of the three convolutions; together a pixel is told of pixels up to 5 away."""
NOISE = 16 / 255
"""Standard deviation of a pixel about what its painter drew, as a share of the range from black to white."""

DOUBT = 1.0
"""Nats that speak for the cell itself, against all that was explained of it."""
LOWEST = -1e30
"""A log-likelihood of nothing, but finite: where everybody has it, it is still a number."""


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
        """Pixels along a side that the convolutions see as one, with the more features: things on a large screen move
        farther, in pixels."""
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
        """(9,) a cell and its neighbours: nobody reaches farther."""

    def cut(self, frames: Shaped[Tensor, "*B px_h px_w"]) -> Shaped[Tensor, "*B H W side_h side_w"]:
        """Every cell with its surroundings, as a view; nothing is beyond the screen."""
        (_, up, side_h), (_, left, side_w) = self.rows, self.columns
        down, right = side_h - up - self.grid.cell_h, side_w - left - self.grid.cell_w
        padded = F.pad(frames, (left, right, up, down))
        return padded.unfold(-2, side_h, self.grid.cell_h).unfold(-2, side_w, self.grid.cell_w)

    def windows(self, frames: Shaped[Tensor, "*B px_h px_w"]) -> Shaped[Tensor, "*B HW side_h side_w"]:
        """The same as a copy, which is several times as large as the frames."""
        return self.cut(frames).flatten(-4, -3)

    def windows_of(
        self, stack: Shaped[Tensor, "N K px_h px_w"], n: Int[Tensor, "M"], cells: Int[Tensor, "M"]
    ) -> Shaped[Tensor, "M K side_h side_w"]:
        """Those of some cells of some samples only."""
        return self.cut(stack)[n, :, cells // self.grid.W, cells % self.grid.W]

    def draw(
        self, seen: Float[Tensor, "M K side_h side_w"], actions: Int[Tensor, "M"]
    ) -> Float[Tensor, "M side_h side_w"]:
        """What changes around each source, judging by its own cell in the last K frames and the action."""
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
        """What each cell's changed pixels give to each source that is asked, [to, from]: every pixel of the screen is
        looked at and every source draws, so that the host of a GPU never has to wait for a number."""
        grid, (N, HW) = self.grid, (len(stack), self.grid.n_cells)
        (_, up, side_h), (_, left, side_w) = self.rows, self.columns
        windows = self.windows(stack).transpose(1, 2).flatten(0, 1)  # (N HW, K, side_h, side_w)
        drawn = self.draw(windows, actions.repeat_interleave(HW)).float().unflatten(0, (N, HW))
        likely = torch.where(asked[:, :, None, None], log_likelihood(drawn, self.windows(change), noise), LOWEST)
        screen = likely.new_full((N, HW, grid.px_h + side_h, grid.px_w + side_w), LOWEST)
        for cell in range(HW):  # where on the screen each has drawn
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
        """The same, from the pixels that changed alone, which are few, and those who can reach them."""
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
        if len(drawing) == 0:  # of nothing at all PyTorch would make no blocks
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
        """How much a pixel counts: by the nats that its `best` drawing explains of its change, or all alike."""
        if self.config.local_credit == "even":
            return torch.ones_like(best)
        return (best - log_likelihood(torch.zeros_like(change), change, noise)).clamp(min=0)


def log_likelihood(
    drawn: Float[Tensor, "*B"], change: Float[Tensor, "*B"], noise: Float[Tensor, ""] | float
) -> Float[Tensor, "*B"]:
    """Of a change, given what was drawn of it; up to a constant."""
    return -((drawn - change) / noise).square() / 2


def within(index: Int[Tensor, "*B"], size: int) -> Bool[Tensor, "*B"]:
    return (index >= 0) & (index < size)
