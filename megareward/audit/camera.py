"""Recorded episodes as a run with a moving camera sees them, and its maps drawn back to the places they are about.

The truth about actions is that of the game seen by a camera that stands still: on the screen of a camera that the
player moves, every action controls every edge, and no map could be wrong. A run's models see the screen, or the picture
that `--stabilise` holds still. Their maps lie `offset` pixels from the truth: the camera's true position minus the one
that the stabiliser estimates. For a game that has no version with a still camera, such as an Atari game, the truth is
about the screen, and only the stabiliser moves maps.
"""

from dataclasses import dataclass, replace

import torch

from megareward.audit.maps import Maps
from megareward.audit.truth import Truth
from megareward.control.grid import Grid
from megareward.envs.make import make_env
from megareward.envs.mini.base import MiniGame
from megareward.envs.stabilised import held_still, rolled
from megareward.training.config import TrainConfig
from megareward.types import Float, Int, Tensor, UInt8


@dataclass(frozen=True)
class Film:
    """Recorded episodes as a run sees them."""

    truth: Truth
    """The truth of the game itself, with the frames that the run sees."""
    offsets: list[Int[Tensor, "T_plus_1 2"]] | None = None
    """Pixels down and right by which maps over these frames must be moved to lie where the truth does; None: all do."""

    def in_place(self, maps: list[Maps]) -> list[Maps]:
        """The maps moved to where the truth is. Only maps of one frame can be moved, not relations between frames."""
        if self.offsets is None:
            return maps
        grid = self.truth.grid
        return [
            Maps(*(None if own is None else moved(own, by, grid) for own in (each.direct, each.g, each.handed_on)))
            for each, by in zip(maps, self.offsets, strict=True)
        ]


def moved(maps: Float[Tensor, "B HW"], by: Int[Tensor, "B 2"], grid: Grid) -> Float[Tensor, "B HW"]:
    """Each map drawn onto pixels and moved; a cell gets the mean of the values that are moved onto it."""
    pixels = grid.to_frames(maps[:, :, None, None].expand(-1, -1, grid.cell_h, grid.cell_w))
    return grid.to_cells(rolled(pixels, by)).mean((-2, -1))


def film(truth: Truth, config: TrainConfig) -> Film:
    """The recorded episodes as this run's camera and stabiliser show them."""
    seen = [episode.frames for episode in truth.episodes]
    camera = [torch.zeros(len(frames), 2, dtype=torch.int64) for frames in seen]
    if config.env.moving_camera:
        seen, camera = filmed(truth, config)
    if config.stabilise:
        held = [held_still(frames, config.stabilise) for frames in seen]
        seen, camera = [one.frames for one in held], [at - one.position for at, one in zip(camera, held, strict=True)]
    episodes = [replace(episode, frames=frames) for episode, frames in zip(truth.episodes, seen, strict=True)]
    in_place = not any(bool(offset.any()) for offset in camera)
    return Film(replace(truth, episodes=episodes), None if in_place else camera)


def filmed(
    truth: Truth, config: TrainConfig
) -> tuple[list[UInt8[Tensor, "T_plus_1 px_h px_w"]], list[Int[Tensor, "T_plus_1 2"]]]:
    """Frames of the episodes replayed with the moving camera, and its positions in pixels."""
    env = make_env(config.game, len(truth.episodes), config.env, hide_score=False, device=torch.device("cpu"))
    assert isinstance(env, MiniGame)
    frames, camera = [env.reset(truth.about["seed"]).frames], [env.camera_in_pixels()]
    for t in range(max(len(episode.actions) for episode in truth.episodes)):
        actions = torch.stack([e.actions[min(t, len(e.actions) - 1)] for e in truth.episodes])
        frames.append(env.step(actions).frames)
        camera.append(env.camera_in_pixels())
    shown, at = torch.stack(frames), torch.stack(camera)  # (T + 1, N, ...)
    lengths = [len(episode.frames) for episode in truth.episodes]
    return [shown[:T, n] for n, T in enumerate(lengths)], [at[:T, n] for n, T in enumerate(lengths)]
