"""The observer of objects, found in frames and followed in slots; rules predict how actions would move one's own.

Everything happens on the device without waiting for it; rules and background learn when a rollout is over.
"""

from collections.abc import Mapping

import torch

from megareward.control.background import Background
from megareward.objects.conditions import conditions, packed, unpacked
from megareward.objects.rules import FARTHEST, Rules, classes_of
from megareward.objects.tracking import REACH, Slots, follow
from megareward.objects.vision import find_boxes, walls_of
from megareward.observers.interface import Context, Observer, Seen
from megareward.rollout import Field, Fields, Rollout
from megareward.state import State, joined, part
from megareward.types import Bool, Float, Int, Tensor

OBJECTS, EFFECTS, SLOTS = "objects", "effects", "slots"
ATTRIBUTES = ("present", "y", "x", "height", "width", "moved down", "moved right", "grey level")


class ObjectObserver(Observer):
    """Records three fields of every frame.

    objects    for one's own object and then every slot: ATTRIBUTES, in [0, 1], moves in [-1, 1]
    effects    for every action how far one's own object would move down and right, in [-1, 1], and whether both are
               known
    slots      for learning: class, whether it was followed, its move, its condition as one number
    """

    capturable = True

    def __init__(self, context: Context) -> None:
        world, config = context.world, context.settings
        self.world, self.S, self.learns = world, config.n_slots, context.learns
        self.background = Background(world.frame_shape, config.background_frames, world.device)
        self.walls = torch.zeros(world.frame_shape, dtype=torch.bool, device=world.device)
        self.rules = Rules(world.n_actions, world.device)
        self.running = Slots.empty(world.n_envs, self.S, world.device)
        self.fields = (
            Field(OBJECTS, ((1 + self.S) * len(ATTRIBUTES),)),
            Field(EFFECTS, (world.n_actions * 3,)),
            Field(SLOTS, (self.S, 5), torch.int64),
        )

    @torch.no_grad()
    def advance(self, seen: Seen) -> Fields:
        tensors = self.running.tensors()
        alive = ~seen.first
        before = Slots.of([t[seen.envs] * alive.view(-1, *[1] * (t.ndim - 1)) for t in tensors])
        found = find_boxes(seen.stacks[:, -1], self.background.frame, self.S)
        found = found._replace(area=found.area * self.background.known)
        slots = follow(before, found, max(self.world.frame_shape) // REACH)
        for place, values in zip(tensors, slots.tensors(), strict=True):
            place.index_copy_(0, seen.envs, values)
        classes, bits = classes_of(slots.boxes), conditions(slots, self.walls)
        own, there = self.own_slot(slots, classes)
        return {
            OBJECTS: self.attributes(slots, own, there),
            EFFECTS: self.effects(classes, bits, own, there),
            SLOTS: torch.stack([classes, slots.followed.long(), *slots.moves.unbind(-1), packed(bits)], -1),
        }

    def own_slot(self, slots: Slots, classes: Int[Tensor, "n S"]) -> tuple[Int[Tensor, "n"], Bool[Tensor, "n"]]:
        """The slot of the largest thing of the class that actions move, and whether there is any."""
        size = slots.boxes.area * (classes == self.rules.agent)
        return size.argmax(1), size.amax(1) > 0

    def attributes(
        self, slots: Slots, own: Int[Tensor, "n"], there: Bool[Tensor, "n"]
    ) -> Float[Tensor, "n attributes"]:
        (px_h, px_w), boxes = self.world.frame_shape, slots.boxes
        moves = (slots.moves / FARTHEST).clamp(-1, 1)
        numbers = (
            *(torch.ones_like(boxes.area), boxes.top / px_h, boxes.left / px_w),
            *((boxes.bottom - boxes.top + 1) / px_h, (boxes.right - boxes.left + 1) / px_w),
            *(*moves.unbind(-1), boxes.level / 255),
        )
        each = torch.stack(numbers, -1) * boxes.present[..., None]  # (n, S, attributes)
        mine = each.gather(1, own[:, None, None].expand(-1, 1, each.shape[-1])) * there[:, None, None]
        return torch.cat([mine, each], 1).flatten(1)

    def effects(
        self,
        classes: Int[Tensor, "n S"],
        bits: Bool[Tensor, "n S bits"],
        own: Int[Tensor, "n"],
        there: Bool[Tensor, "n"],
    ) -> Float[Tensor, "n effects"]:
        mine = bits.gather(1, own[:, None, None].expand(-1, 1, bits.shape[-1]))[:, 0]
        kind = torch.where(there, classes.gather(1, own[:, None])[:, 0], -1)
        moves, known = self.rules.predict(kind, mine)  # (n, A, 2)
        return torch.cat([moves / FARTHEST, known.all(-1, keepdim=True)], -1).flatten(1)

    def changed(self) -> list[Tensor]:
        return self.running.tensors()

    def learn(self, rollout: Rollout) -> dict[str, Tensor]:
        """Once the background is fixed, the rules learn from every object that was followed."""
        slots = rollout.fields[SLOTS]
        metrics = {"objects/seen": (slots[1:, ..., 0] >= 0).sum(-1).float().mean()}
        if self.learns and self.background.n_seen >= self.background.n_frames:
            kinds, followed, moves = slots[:-1, ..., 0], slots[1:, ..., 1] > 0, slots[1:, ..., 2:4]
            valid = followed & (slots[1:, ..., 0] == kinds) & rollout.real[..., None]
            actions = rollout.actions[..., None].expand_as(kinds)
            bits = unpacked(slots[:-1, ..., 4])
            metrics |= self.measured(kinds, actions, moves, bits, valid)
            self.rules.learn(
                kinds.flatten(), actions.flatten(), moves.flatten(0, 2), bits.flatten(0, 2), valid.flatten()
            )
        elif self.learns:
            self.background.observe(rollout.recorded().frames[1:].flatten(0, 1))
            self.walls.copy_(walls_of(self.background.frame))
        return metrics

    def measured(self, kinds: Tensor, actions: Tensor, moves: Tensor, bits: Tensor, valid: Tensor) -> dict[str, Tensor]:
        """How well the rules predict one's own object, before they learn from this rollout: the share of its moves that
        they predict, and the share of these that are right. Last step only: each costs a table of all rules."""
        few = slice(-1, None)
        mine = (valid & (kinds == self.rules.agent))[few].flatten()
        said = self.rules.predict(kinds[few].flatten(), bits[few].flatten(0, 2))
        taken = actions[few].flatten()[:, None, None].expand(-1, 1, 2)
        known, move = (values.gather(1, taken)[:, 0] for values in (said.known, said.moves))
        known = known.all(-1) & mine
        right = known & (move == moves[few].flatten(0, 2)).all(-1)
        return {
            "objects/known": known.sum() / mine.sum().clamp(min=1),
            "objects/right": right.sum() / known.sum().clamp(min=1),
        }

    def state_dict(self) -> State:
        return joined(background=self.background.state_dict(), rules=self.rules.state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.background.load_state_dict(part(state, "background"))
        self.walls.copy_(walls_of(self.background.frame) & self.background.known)
        self.rules.load_state_dict(part(state, "rules"))

    def running_state(self) -> State:
        return {f"{i}": tensor.clone() for i, tensor in enumerate(self.running.tensors())}

    def load_running_state(self, state: Mapping[str, Tensor]) -> None:
        for i, tensor in enumerate(self.running.tensors()):
            tensor.copy_(state[f"{i}"])


def build(context: Context) -> Observer:
    return ObjectObserver(context)
