"""A picture held still although the player moves the camera: the shift of each frame is found and undone.

Between two frames of a moving camera almost everything shifts by the same few pixels. `camera_shift` finds the shift
after which least of the picture differs, if it explains enough, since moving things look the same on a small scale.
`Stabilised` adds the shifts up and draws every frame where it belongs, into a picture as large as the screen:

    position   where the camera is, in pixels down and right of where the game began (N, 2)
    window     the place that the picture begins with: it follows the camera when that is farther than `slack` (N, 2)
    picture    at (y, x), the place of the window that is y and x modulo the sides, as it was seen last (N, px_h, px_w)

The picture is a torus, as in scrolling hardware: when the window moves, what enters on one side takes the place of what
has left on the other, and all else stays on the same pixels. The slack is for cameras that sway: while the window
stands, no seam moves through the picture, which would tell the action as well as the camera does. Its price: places
out of sight are shown as they were, and as many at the other edge of the screen are not shown. `rolled` by -position
draws a picture, or a map over it, back onto the screen.

It cannot follow where hardly anything stands still (mini-demon's ceiling and ground look alike wherever the camera is),
a jump farther than `reach`, or a picture that turns or grows (a driver's view). Then frames are shown as they are.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import torch

from megareward.envs.interface import BatchedEnv, Step
from megareward.envs.wrapper import EnvWrapper
from megareward.types import Bool, Int, Shaped, Tensor, UInt8

EXPLAINS = 0.5
"""A shift is accepted if it leaves less than this share of the pixels that differ without it, ..."""
LEAST = 0.03
"""... and if it explains this share of the picture: one thing that moves in front of nothing is not a camera."""
SLACK = 0.25
"""How far the camera may sway before the window follows it, as a share of the sides."""
STATE = ("position", "window", "picture", "last", "over")


class Stabilised(EnvWrapper):
    """The game with its camera held still."""

    def __init__(self, env: BatchedEnv, reach: int) -> None:
        """`reach`: the largest shift to look for, in pixels per step, down and right added up."""
        super().__init__(env)
        self.reach = reach
        self._start()

    def _start(self) -> None:
        n, device = self.n_envs, self.device
        self.position, self.window = (torch.zeros(n, 2, dtype=torch.int64, device=device) for _ in range(2))
        self.picture, self.last = (
            torch.zeros(n, *self.frame_shape, dtype=torch.uint8, device=device) for _ in range(2)
        )
        self.over = torch.ones(n, dtype=torch.bool, device=device)
        """The next frame opens a new game: it has no shift, and the camera is back at (0, 0)."""

    def reset(self, seed: int) -> Step:
        self._start()
        return super().reset(seed)

    def change(self, step: Step, rows: slice) -> Step:
        begins, moved = self.over[rows, None], camera_shift(self.last[rows], step.frames, self.reach)
        position = (self.position[rows] + moved).masked_fill(begins, 0)
        window, picture = drawn(self.window[rows].masked_fill(begins, 0), self.picture[rows], position, step.frames)
        self.position[rows], self.window[rows], self.picture[rows] = position, window, picture
        self.last[rows], self.over[rows] = step.frames, step.episode_over
        return replace(step, frames=picture)

    def own_state(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).clone() for name in STATE}

    def load_own_state(self, state: dict[str, Tensor]) -> None:
        for name in STATE:
            setattr(self, name, state[name].to(self.device, copy=True))


def drawn(
    window: Int[Tensor, "N 2"],
    picture: UInt8[Tensor, "N px_h px_w"],
    position: Int[Tensor, "N 2"],
    frames: UInt8[Tensor, "N px_h px_w"],
) -> tuple[Int[Tensor, "N 2"], UInt8[Tensor, "N px_h px_w"]]:
    """Window and picture after the camera, now at `position`, has seen `frames`. If `position` is that of the window,
    nothing is left of the picture before."""
    slack = (SLACK * torch.tensor(frames.shape[1:], device=position.device)).long()
    window = torch.minimum(torch.maximum(window, position - slack), position + slack)
    rows, columns = (
        places(position[:, axis], side) == places(window[:, axis], side) for axis, side in enumerate(frames.shape[1:])
    )
    in_sight = rows[:, :, None] & columns[:, None, :]
    return window, torch.where(in_sight, rolled(frames, position), picture)


def places(start: Int[Tensor, "N"], side: int) -> Int[Tensor, "N side"]:
    """Along one axis: the place that each pixel shows, in a picture that begins with the place `start`."""
    return start[:, None] + (torch.arange(side, device=start.device) - start[:, None]) % side


class Held(NamedTuple):
    """One game held still."""

    frames: UInt8[Tensor, "T px_h px_w"]
    position: Int[Tensor, "T 2"]


def held_still(frames: UInt8[Tensor, "T px_h px_w"], reach: int) -> Held:
    """What `Stabilised` shows of one game, given all its frames from the first on."""
    shift = camera_shift(frames[:-1], frames[1:], reach)
    position = torch.cat([shift.new_zeros(1, 2), shift.cumsum(0)])
    window, pictures = position[:1], [frames[:1]]
    for at, frame in zip(position[1:, None], frames[1:, None], strict=True):
        window, picture = drawn(window, pictures[-1], at, frame)
        pictures.append(picture)
    return Held(torch.cat(pictures), position)


@cache
def shifts(reach: int) -> tuple[tuple[int, int], ...]:
    """All (down, right) within reach, the nearest first: (0, 0)."""
    sides = range(-reach, reach + 1)
    near = [(y, x) for y in sides for x in sides if abs(y) + abs(x) <= reach]
    return tuple(sorted(near, key=lambda shift: (abs(shift[0]) + abs(shift[1]), shift)))


def camera_shift(
    before: UInt8[Tensor, "N px_h px_w"], now: UInt8[Tensor, "N px_h px_w"], reach: int
) -> Int[Tensor, "N 2"]:
    """How far the camera moved down and right: now[y, x] is what before[y + down, x + right] was. (0, 0) unless a shift
    explains most of what changed; a farther one must again explain most of what the nearer ones leave."""
    least = differing(before, now, 0, 0)  # (N,)
    found = torch.zeros(len(now), dtype=torch.int64, device=now.device)
    enough = LEAST * now[0].numel()
    for number, shift in enumerate(shifts(reach)):
        left = differing(before, now, *shift)
        better = (left < EXPLAINS * least) & (least - left >= enough)
        least, found = torch.where(better, left, least), torch.where(better, number, found)
    return torch.tensor(shifts(reach), device=now.device)[found]


def differing(
    before: UInt8[Tensor, "N px_h px_w"], now: UInt8[Tensor, "N px_h px_w"], down: int, right: int
) -> Int[Tensor, "N"]:
    """Number of pixels that differ if the camera has moved by this shift, among those that both frames see."""
    px_h, px_w = now.shape[1:]
    seen = now[:, max(0, -down) : px_h - max(0, down), max(0, -right) : px_w - max(0, right)]
    was = before[:, max(0, down) : px_h - max(0, -down), max(0, right) : px_w - max(0, -right)]
    differs: Bool[Tensor, "N h w"] = seen != was
    return differs.flatten(1).sum(1, dtype=torch.int32)


def rolled(pictures: Shaped[Tensor, "N px_h px_w"], by: Int[Tensor, "N 2"]) -> Shaped[Tensor, "N px_h px_w"]:
    """Each picture shifted down and right by its own number of pixels; what leaves on one side enters on the other."""
    px_h, px_w = pictures.shape[1:]
    y = (torch.arange(px_h, device=by.device) - by[:, :1]) % px_h  # (N, px_h)
    x = (torch.arange(px_w, device=by.device) - by[:, 1:]) % px_w  # (N, px_w)
    rows = pictures.gather(1, y[:, :, None].expand(-1, -1, px_w))
    return rows.gather(2, x[:, None, :].expand(-1, px_h, -1))
