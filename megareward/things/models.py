"""Control, thing by thing: direct control of each thing (ADM's part) and what it relied on (RTM's part).

  direct    the information about the action in a thing: a network that sees how this thing alone looked and looks now
            predicts the action; what counts is how far its prediction is from an even one [D32]
  relation  Phi draws what a thing will look like from the thing alone. Where that fails, every neighbour in turn is
            shown beside it, and the thing relies on those that improve the drawing (the posterior of these
            explanations). A thing that was not there before relies on those that draw it; an unchanged one on itself

A ball that flies on is explained by itself, one that bounces off a paddle only with the paddle: there control changes
hands. A car that passes by the walker is explained by itself all the time, and takes over no control.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from megareward.control.background import Background
from megareward.control.config import ControlConfig
from megareward.control.grid import Grid
from megareward.errors import UsageError
from megareward.objects.vision import TOLERANCE
from megareward.state import State, joined, part
from megareward.things.networks import Draws, Guesses
from megareward.things.sight import Things, apart, farthest, find, follow, most_in_a_frame, pixels
from megareward.types import Bool, Float, Int, Tensor, UInt8

NOISE = 16 / 255
"""Standard deviation of a pixel around its drawing, as a share of the range from black to white."""
DOUBT = 20.0
"""Nats by which another thing must improve the drawing of a thing before it is the likelier explanation."""
READABLE = 0.1
"""Least information about the action, as a share of log A, for a thing to count as controlled."""
DARKER, NEITHER, BRIGHTER = 28, 128, 228
"""The levels of a frame with `things.sight` contrast."""
WITH_A_NEIGHBOUR = 0.6
"""Probability that Phi learns from a thing together with a neighbour, where there is one; else from it alone."""


@dataclass(frozen=True)
class Seen:
    """The things of a transition, matched between frames. S: their number in the fullest frame of all environments."""

    frames: Float[Tensor, "N F px_h px_w"]
    """K frames up to s_{t-1}, then s_t, as differences to the background, from -1 to 1."""
    sighted: UInt8[Tensor, "N F px_h px_w"]
    """The same frames, in the form in which things are searched, ..."""
    ground: UInt8[Tensor, "px_h px_w"]
    """... and the background."""
    things: Things
    same: Bool[Tensor, "N F S"]
    """Whether the slot shows the thing that it held in s_{t-1}; in the last frame, whether it shows any thing."""

    @property
    def was(self) -> Bool[Tensor, "N S"]:
        return self.same[:, -2]

    @property
    def there(self) -> Bool[Tensor, "N S"]:
        return self.same[:, -1]

    @cached_property
    def pixels(self) -> Bool[Tensor, "N F S px_h px_w"]:
        """Pixels of every thing in every frame; `own` computes only some of them."""
        own = pixels(self.things.boxes, self.things.levels, self.sighted[:, :, None], self.ground)
        return own & self.same[..., None, None]

    @property
    def before(self) -> Bool[Tensor, "N S px_h px_w"]:
        """Pixels of all things of s_{t-1}."""
        return self.pixels[:, -2]

    @property
    def now(self) -> Bool[Tensor, "N S px_h px_w"]:
        return self.pixels[:, -1]

    def own(self, n: Int[Tensor, "M"], thing: Int[Tensor, "M"], f: slice) -> Bool[Tensor, "M f px_h px_w"]:
        """Pixels of one thing of each of some transitions; -1 is no thing."""
        slot, is_one = thing.clamp(min=0), (thing >= 0)[:, None, None, None]
        if "pixels" in self.__dict__:  # known already
            return self.pixels[n, f, slot] & is_one
        boxes, levels, same = (of[n, f, slot] for of in (self.things.boxes, self.things.levels, self.same))
        return pixels(boxes, levels, self.sighted[n, f], self.ground) & same[..., None, None] & is_one

    def shown(self, n: Int[Tensor, "M"], *things: Int[Tensor, "M"]) -> Float[Tensor, "M K px_h px_w"]:
        """The frames up to s_{t-1} of some transitions, with these things alone; -1 is no thing."""
        visible = self.own(n, things[0], slice(-1))
        for thing in things[1:]:
            visible |= self.own(n, thing, slice(-1))
        return self.frames[n, :-1] * visible


class ThingAttention(NamedTuple):
    """What the networks find of up to S things of each environment in one step, and where these are."""

    direct: Float[Tensor, "N S"]
    relation: Float[Tensor, "N S S"]
    """[to, from]: from what the slot `from` held in s_{t-1}. Rows sum to 1 at most."""
    changed: Bool[Tensor, "N S"]
    """The thing is new, or moved, or looks different."""
    before: Bool[Tensor, "N S px_h px_w"]
    """Pixels of the things of s_{t-1}."""
    now: Bool[Tensor, "N S px_h px_w"]
    goes_on: Bool[Tensor, "N S"]
    """The slot holds what it held in s_{t-1}."""


class ThingModels:
    """The networks and what they see. Frames go in as bytes."""

    def __init__(
        self,
        config: ControlConfig,
        frame_shape: tuple[int, int],
        n_actions: int,
        device: torch.device | str = "cpu",
        seed: int = 0,
    ) -> None:
        self.config, self.frame_shape, self.n_actions = config, frame_shape, n_actions
        self.device, self.S, self.K = torch.device(device), config.things.slots, config.rtm.stack
        self.grid = Grid(config.H, config.W, *frame_shape)
        sizes = (frame_shape, self.K, n_actions, config.rtm.local_features)
        with torch.random.fork_rng(devices=[]):  # weights depend on the seed only, and leave the global rng as it was
            torch.manual_seed(seed)
            self.draws, self.guesses = Draws(*sizes), Guesses(*sizes)
        if any(side % self.draws.block for side in frame_shape):
            raise UsageError(
                f"Frames of {frame_shape[0]} x {frame_shape[1]} pixels cannot be cut into blocks of "
                f"{self.draws.block} x {self.draws.block}; leave out --control.things.slots, or use another size."
            )
        self.modules = nn.ModuleDict({"draws": self.draws, "guesses": self.guesses}).to(self.device)
        self.background = Background(frame_shape, config.background_frames, self.device)

    @property
    def scenery(self) -> Float[Tensor, "px_h px_w"]:
        return self.background.frame.float() / 255

    def find(self, frames: UInt8[Tensor, "N F px_h px_w"]) -> Int[Tensor, "N F S 6"]:
        """The things of every frame on its own. Keep the result for a frame that is used more than once."""
        return find(*self._as_sighted(frames), self.S)

    def _as_sighted(self, frames: UInt8[Tensor, "*B px_h px_w"]) -> tuple[Tensor, UInt8[Tensor, "px_h px_w"]]:
        """Frames and background, in the form in which things are searched; three levels only with sight `contrast`."""
        background = self.background.frame
        if self.config.things.sight == "level":
            return frames, background
        differs = frames.to(torch.int16) - background.to(torch.int16)
        brighter, darker = differs >= TOLERANCE, differs <= -TOLERANCE
        levels = torch.full_like(frames, NEITHER).masked_fill(brighter, BRIGHTER).masked_fill(darker, DARKER)
        return levels, torch.full_like(background, NEITHER)

    def see(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        now: UInt8[Tensor, "N px_h px_w"],
        found: Int[Tensor, "N F S 6"] | None = None,
    ) -> Seen:
        frames = torch.cat([stack, now[:, None]], 1)
        found = self.find(frames) if found is None else found
        things = follow(found[:, :, : most_in_a_frame(found)], farthest(self.frame_shape))
        sighted, background = self._as_sighted(frames)
        same = torch.cat([things.known_since()[:, :-1], things.there[:, -1:]], 1) & self.background.known
        return Seen(frames.float() / 255 - self.scenery, sighted, background, things, same)

    @torch.no_grad()
    def attend(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: UInt8[Tensor, "N px_h px_w"],
        found: Int[Tensor, "N F S 6"] | None = None,
    ) -> ThingAttention:
        """For one real transition of every environment. `found`: the result of `find` for the stack and `now`."""
        seen = self.see(stack, now, found)
        goes_on = seen.things.goes_on[:, -1] & seen.now.any((-2, -1))
        changed = (seen.before ^ seen.now).any((-2, -1)) | ~goes_on
        changed &= seen.now.any((-2, -1))
        return ThingAttention(
            self.direct(seen), self.relation(seen, actions, goes_on, changed), changed, seen.before, seen.now, goes_on
        )

    def direct(self, seen: Seen) -> Float[Tensor, "N S"]:
        """Information about the action in each thing, as a share of log A; 0 where it is not `READABLE`."""
        n, thing = seen.now.any((-2, -1)).nonzero().unbind(1)
        told = seen.frames.new_zeros(seen.now.shape[:2])
        if len(n) and self.n_actions > 1:
            log_p = self._guess(seen, n, thing).log_softmax(-1)
            all_of_it = math.log(self.n_actions)
            told[n, thing] = (log_p.exp() * (log_p + all_of_it)).sum(-1) / all_of_it
        return told * (told > READABLE)

    def _guess(self, seen: Seen, n: Int[Tensor, "M"], thing: Int[Tensor, "M"]) -> Float[Tensor, "M A"]:
        was = torch.where(seen.things.goes_on[n, -1, thing], thing, -1)
        return self.guesses(
            seen.shown(n, was), seen.frames[n, -1] * seen.own(n, thing, slice(-1, None))[:, 0], self.scenery
        )

    def relation(
        self, seen: Seen, actions: Int[Tensor, "N"], goes_on: Bool[Tensor, "N S"], changed: Bool[Tensor, "N S"]
    ) -> Float[Tensor, "N S S"]:
        """The relation [to, from]. Only what is needed is drawn: a thing alone if it changed, with each neighbour if
        that does not explain it, and all that is near a new thing."""
        boxes = seen.things.boxes
        was, fresh = seen.before.any((-2, -1)), changed & ~goes_on
        blank = -(seen.frames[:, -1, None] * seen.now / NOISE).square().sum((-2, -1)) / 2  # (N, S)

        itself = torch.eye(boxes.shape[2], dtype=torch.bool, device=self.device)
        by_itself = self._explain(seen, actions, changed & goes_on, itself).diagonal(dim1=1, dim2=2)
        explained = torch.maximum(by_itself, blank)
        near = (apart(boxes[:, -2, :, None], boxes[:, -2, None, :]) <= self.draws.reach) & was[:, None, :] & ~itself
        open_question = changed & goes_on & (explained < -DOUBT)
        together = self._explain(seen, actions, open_question, near, with_itself=True)
        near_new = (apart(boxes[:, -1, :, None], boxes[:, -2, None, :]) <= self.draws.reach) & was[:, None, :]
        parents = self._explain(seen, actions, fresh, near_new)
        asked = (fresh[:, :, None] & near_new) | (open_question[:, :, None] & near)
        with_others = torch.where(fresh[:, :, None], parents, together) - DOUBT
        without = torch.where(goes_on, explained, blank)[..., None]
        likely = torch.cat([without, with_others.masked_fill(~asked, -torch.inf)], -1).softmax(-1)  # (N, S, 1 + S)
        relation = likely[..., 1:] + torch.diag_embed(likely[..., 0] * goes_on)
        unchanged = goes_on & ~changed
        return torch.where(unchanged[..., None], itself.float(), relation * seen.now.any((-2, -1))[..., None])

    def _explain(
        self,
        seen: Seen,
        actions: Int[Tensor, "N"],
        to: Bool[Tensor, "N S"],
        source: Bool[Tensor, "*#N S S"],
        with_itself: bool = False,
    ) -> Float[Tensor, "N S S"]:
        """[to, from]: the log-likelihood of what each thing `to` looks like, drawn from each `source` alone, or from
        source and thing itself; 0 elsewhere. Phi draws only the thing's surroundings, as that is all it takes."""
        n, thing, other = (to[:, :, None] & source).nonzero().unbind(1)
        found = seen.frames.new_zeros(*to.shape, to.shape[1])
        if len(n):
            shown = seen.shown(n, other, thing) if with_itself else seen.shown(n, other)
            rows, columns = (
                window(ends, self.draws) for ends in axes(seen.things.boxes[n, -1, thing], self.frame_shape)
            )
            m = torch.arange(len(n), device=n.device)[:, None, None]
            at = (m, rows[:, :, None], columns[:, None, :])  # (M, side_h, side_w) each
            drawn = self.draws(shown.movedim(1, -1)[at].movedim(-1, 1), self.scenery[at[1:]][:, None], actions[n])
            error = (drawn - seen.frames[n, -1][at]) * seen.now[n, thing][at] / NOISE
            found[n, thing, other] = -error.square().sum((-2, -1)) / 2
        return found

    # Learning ------------------------------------------------------------------------------------------------------

    def losses(
        self,
        stack: UInt8[Tensor, "N K px_h px_w"],
        actions: Int[Tensor, "N"],
        now: UInt8[Tensor, "N px_h px_w"],
        log_policy: Float[Tensor, "N A"],
        random: Float[Tensor, "N 4 S"],
        found: Int[Tensor, "N F S 6"] | None = None,
    ) -> dict[str, Float[Tensor, ""]]:
        """Of Phi, on one thing of each transition, alone or with a neighbour; and of Theta, on one thing of each.
        `random`: numbers from 0 to 1 that decide which. `found`: see `attend`."""
        with torch.no_grad():
            seen = self.see(stack, now, found)
            boxes, N = seen.things.boxes, torch.arange(len(stack), device=self.device)
            random, others = (
                random[:, :, : boxes.shape[2]],
                ~torch.eye(boxes.shape[2], dtype=torch.bool, device=self.device),
            )
            was, there = seen.was, seen.there
            near = apart(boxes[:, -2, :, None], boxes[:, -2, None, :]) <= self.draws.reach  # (N, S, S)
            near &= was[:, :, None] & was[:, None, :] & others
            one = (was * (1 + random[:, 0] + near.any(-1) / 2)).argmax(-1)  # those with neighbours more often
            two = (near[N, one] * (1 + random[:, 1])).argmax(-1)
            two = torch.where(near[N, one, two] & (random[:, 2, 0] < WITH_A_NEIGHBOUR), two, -1)
            shown, target = seen.shown(N, one, two), self._becomes(seen, N, one, two)
            counts = grown((shown != 0).any(1), self.draws.reach)
            who = (there * (1 + random[:, 3])).argmax(-1)
        error = (self.draws(shown, self.scenery, actions) - target).square() * counts
        logits = self._guess(seen, N, who) + log_policy
        guess = F.cross_entropy(logits, actions, reduction="none") * there.any(-1)
        return {
            "draw": error.sum((-2, -1)).mean(),
            "guess": guess.sum() / there.any(-1).sum().clamp(min=1),
        }

    def _becomes(self, seen: Seen, n: Int[Tensor, "M"], *things: Int[Tensor, "M"]) -> Float[Tensor, "M px_h px_w"]:
        """What the things show at t, and with them all that is new there; of all transitions, in their order."""
        goes_on, now = seen.things.goes_on[:, -1], slice(-1, None)
        row, new = (seen.there & ~goes_on).nonzero().unbind(1)
        visible = torch.zeros(seen.frames[:, 0].shape, dtype=torch.uint8, device=self.device)
        visible.index_add_(0, row, seen.own(row, new, now)[:, 0].byte())
        for thing in things:
            followed = torch.where(goes_on[n, thing.clamp(min=0)], thing, -1)
            visible += seen.own(n, followed, now)[:, 0]
        return seen.frames[:, -1] * (visible > 0)

    def copy_statistics(self, other: "ThingModels") -> None:
        self.background.copy_from(other.background)

    def state_dict(self) -> State:
        return joined(modules=self.modules.state_dict(), background=self.background.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.modules.load_state_dict(part(state, "modules"))
        self.background.load_state_dict(part(state, "background"))


def grown(mask: Bool[Tensor, "M px_h px_w"], reach: int) -> Float[Tensor, "M px_h px_w"]:
    """1 on all pixels that are within reach of those of the mask, 0 elsewhere."""
    side, near = 2 * reach + 1, mask[:, None].float()
    near = F.max_pool2d(near, (side, 1), 1, (reach, 0))
    return F.max_pool2d(near, (1, side), 1, (0, reach))[:, 0]


def axes(boxes: Int[Tensor, "M 4"], frame_shape: tuple[int, int]) -> list[tuple[Tensor, Tensor, int]]:
    """First and last end of boxes and the length of the screen, down and across."""
    return [(boxes[:, i], boxes[:, i + 2], frame_shape[i]) for i in (0, 1)]


def window(ends: tuple[Int[Tensor, "M"], Int[Tensor, "M"], int], draws: Draws) -> Int[Tensor, "M side"]:
    """Along one axis, the pixels that decide what is drawn between the ends of each box: as far as Phi reaches, all of
    one length, within the screen, in whole blocks."""
    (begin, end, pixels), block = ends, draws.block
    side = min(-(-int((end - begin).max()) // block) * block + 2 * draws.reach + block, pixels)
    start = ((begin - draws.reach).clamp(min=0) // block * block).clamp(max=pixels - side)
    return start[:, None] + torch.arange(side, device=begin.device)
