"""The truth about recorded episodes, and its file. Readers only need `load_truth(path)`.

    truth = load_truth(path)
    episode = truth.episodes[0]
    episode.frames        (T + 1, px_h, px_w)  bytes; frame 0 opens the episode
    episode.actions       (T,)                 action t was taken at frame t and led to frame t + 1
    episode.influence     (T + 1, L, HW)       does the action n steps before frame t control the cell? at [t, n - 1]
    episode.direct        (T + 1, HW)          the same for n = 1: true direct control
    episode.g(rho)        (T + 1, HW)          Eq. 9 over the lags that were followed
    episode.sources       (T + 1, HW, HW)      could the cell have its control from that cell of the frame before?

Everything is indexed by the frame it is about; where frame t has no action n steps before it, nothing is controlled.
Cells are numbered row by row on the grid `truth.grid`.
"""

import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from megareward.control.flash import is_flash
from megareward.control.grid import Grid
from megareward.control.observation import changed_cells
from megareward.errors import RunError, UsageError
from megareward.runs.durable import replace_synced
from megareward.state import MismatchError, check_fits
from megareward.types import Bool, Float, Int, Tensor, UInt8

TRUTH_VERSION = 1
"""Increased when truth of an older version must be found again."""
FLASH = 0.5
"""A step that changes more than this share of the pixels is a flash and has no movers."""


@dataclass(frozen=True)
class AuditedEpisode:
    """One episode as it was played, and what each action controlled in it."""

    frames: UInt8[Tensor, "T_plus_1 px_h px_w"]
    actions: Int[Tensor, "T"]
    changed: UInt8[Tensor, "T_plus_1 L HW"]
    """How many of the alternatives to the action n steps before frame t would show something else in the cell."""

    @property
    def influence(self) -> Bool[Tensor, "T_plus_1 L HW"]:
        """Whether any alternative would change the cell."""
        return self.changed > 0

    @property
    def direct(self) -> Bool[Tensor, "T_plus_1 HW"]:
        return self.influence[:, 0]

    def g(self, rho: float) -> Float[Tensor, "T_plus_1 HW"]:
        """Eq. 9: sum over n of rho^(n-1) times influence, over the lags that were followed; at most 1 / (1 - rho)."""
        discounts = rho ** torch.arange(self.changed.shape[1])
        return torch.einsum("n,tnc->tc", discounts, self.influence.float())

    @property
    def sources(self) -> Bool[Tensor, "T_plus_1 HW HW"]:
        """[t, to, from]: some action that controls `to` in frame t controlled `from` in frame t - 1, from where its
        effect can have come."""
        influence = self.influence.float()
        found = torch.einsum("tni,tnj->tij", influence[1:, 1:], influence[:-1, :-1]) > 0
        return torch.cat([torch.zeros_like(found[:1]), found])


@dataclass(frozen=True)
class Truth:
    """Recorded episodes of one game under one policy."""

    about: dict[str, Any]
    """What was asked: game, policy, seed, lags, frames, episodes, grid, environment; see `record.question`."""
    action_names: tuple[str, ...]
    episodes: list[AuditedEpisode]

    @property
    def frame_shape(self) -> tuple[int, int]:
        px_h, px_w = self.episodes[0].frames.shape[1:]
        return px_h, px_w

    @property
    def grid(self) -> Grid:
        H, W = self.about["grid"]
        return Grid(H, W, *self.frame_shape)

    @property
    def lags(self) -> int:
        return int(self.about["lags"])

    def visible(self) -> list[Bool[Tensor, "T_plus_1 HW"]]:
        """For each episode, which cells show anything but background: the median of each pixel over all frames."""
        background = torch.cat([episode.frames for episode in self.episodes]).median(0).values
        return [changed_cells(background.expand_as(e.frames), e.frames, self.grid) for e in self.episodes]

    def movers(self) -> list[Bool[Tensor, "T_plus_1 HW"]]:
        """For each episode, which cells changed in the step to the frame although its action does not control them:
        something moved there by itself, or because of an earlier action."""
        found = []
        for episode in self.episodes:
            before, now = episode.frames[:-1], episode.frames[1:]
            changed = changed_cells(before, now, self.grid) & ~is_flash(before, now, FLASH)[:, None]
            found.append(torch.cat([torch.zeros_like(changed[:1]), changed]) & ~episode.direct)
        return found


COMPRESSED = b"\xfd7zXZ"
"""First bytes of a compressed file. Frames are alike: a file has less than a hundredth of the size in memory."""


def save_truth(truth: Truth, path: Path) -> None:
    """Write safetensors, compressed by xz, which also detects damage. The file appears whole or not at all."""
    tensors = {
        f"{i}.{name}": value.contiguous() for i, e in enumerate(truth.episodes) for name, value in vars(e).items()
    }
    header = {"version": TRUTH_VERSION, "about": truth.about, "action_names": truth.action_names}
    path.parent.mkdir(parents=True, exist_ok=True)
    data = safetensors.torch.save(tensors, {"truth": json.dumps(header)})
    replace_synced(path, lzma.compress(data, preset=3))


def load_truth(path: Path) -> Truth:
    """Read what `save_truth` wrote."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist; `megareward audit RUN` finds the truth and says where it is.")
    try:
        data = path.read_bytes()
        if data.startswith(COMPRESSED):
            data = lzma.decompress(data)
        tensors, header = safetensors.torch.load(data), _header(data)
    except (safetensors.SafetensorError, lzma.LZMAError, ValueError) as broken:
        raise RunError(f"{path} is damaged ({broken}); remove it and audit again.") from broken
    if header.get("version") != TRUTH_VERSION:
        raise UsageError(
            f"{path} has version {header.get('version')} of the truth, this megareward reads version {TRUTH_VERSION}; "
            "remove it and audit again."
        )
    try:
        n_episodes = len({name.split(".")[0] for name in tensors})
        fields = ("frames", "actions", "changed")
        episodes = [AuditedEpisode(**{name: tensors[f"{i}.{name}"] for name in fields}) for i in range(n_episodes)]
        truth = Truth(header["about"], tuple(header["action_names"]), episodes)
        _check(truth)
    except (KeyError, TypeError, ValueError, IndexError, MismatchError) as broken:
        raise RunError(f"{path} is damaged ({broken}); remove it and audit again.") from broken
    return truth


def _header(data: bytes) -> dict[str, Any]:
    """The header that `save_truth` wrote: safetensors begin with the length of a JSON text, and the text."""
    length = int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("truth", "{}"))
    return header


def _check(truth: Truth) -> None:
    """Raise unless every episode has the sizes that the header gives."""
    (px_h, px_w), (H, W), A = truth.frame_shape, truth.about["grid"], len(truth.action_names)
    for episode in truth.episodes:
        T = len(episode.actions)
        expected = {
            "frames": torch.empty(T + 1, px_h, px_w, dtype=torch.uint8),
            "actions": torch.empty(T, dtype=torch.int64),
            "changed": torch.empty(T + 1, truth.lags, H * W, dtype=torch.uint8),
        }
        check_fits(vars(episode), expected)
        if not T or not 0 <= int(episode.actions.min()) <= int(episode.actions.max()) < A:
            raise ValueError("its actions are not among those it names")
