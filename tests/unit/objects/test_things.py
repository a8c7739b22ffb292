"""Things in frames: connected pixels, slots that follow them, relations between them, rules about them."""

import pytest
import torch

from megareward.objects.conditions import NAMES, conditions, packed, unpacked
from megareward.objects.rules import N_CLASSES, Rules, classes_of
from megareward.objects.tracking import Slots, follow
from megareward.objects.vision import Boxes, components, find_boxes, walls_of

CPU = torch.device("cpu")
PX_H, PX_W = 24, 30


def frame_with(*boxes: tuple[int, int, int, int, int]) -> torch.Tensor:
    """(top, left, bottom, right, level) each, on black."""
    frame = torch.zeros(1, PX_H, PX_W, dtype=torch.uint8)
    for top, left, bottom, right, level in boxes:
        frame[0, top : bottom + 1, left : right + 1] = level
    return frame


BLACK = torch.zeros(PX_H, PX_W, dtype=torch.uint8)


def found(*boxes: tuple[int, int, int, int, int], slots: int = 4) -> Boxes:
    return find_boxes(frame_with(*boxes), BLACK, slots)


def flood(levels: torch.Tensor, foreground: torch.Tensor) -> set[frozenset[int]]:
    """Components, one pixel after the other."""
    left = {(y, x) for y, x in foreground.nonzero().tolist()}
    parts = set()
    while left:
        part, edge = set(), [left.pop()]
        while edge:
            y, x = edge.pop()
            part.add(y * levels.shape[1] + x)
            for near in [(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]:
                if near in left and abs(int(levels[near]) - int(levels[y, x])) < 24:
                    left.remove(near)
                    edge.append(near)
        parts.add(frozenset(part))
    return parts


@pytest.mark.parametrize("seed", range(4))
def test_components_are_those_of_a_flood_fill(seed):
    generator = torch.Generator().manual_seed(seed)
    levels = torch.tensor([0, 100, 200])[torch.randint(3, (2, PX_H, PX_W), generator=generator)]
    foreground = levels > 0
    labels = components(levels, foreground)
    for n in range(2):
        by_label: dict[int, set[int]] = {}
        for y, x in foreground[n].nonzero().tolist():
            by_label.setdefault(int(labels[n, y, x]), set()).add(y * PX_W + x)
        assert {frozenset(part) for part in by_label.values()} == flood(levels[n], foreground[n])


def test_things_are_found_with_their_boxes_largest_first_and_specks_are_none():
    boxes = found((2, 3, 5, 4, 100), (10, 10, 15, 20, 200), (20, 25, 20, 26, 255))
    assert boxes.present.tolist() == [[True, True, False, False]]
    assert [int(values[0, 0]) for values in boxes] == [10, 10, 15, 20, 66, 200]
    assert [int(values[0, 1]) for values in boxes] == [2, 3, 5, 4, 8, 100]


def test_a_slot_follows_its_thing_and_a_new_one_opens_a_free_slot():
    slots = follow(Slots.empty(1, 4, CPU), found((2, 3, 5, 4, 100), (10, 10, 15, 20, 200)), reach=4)
    assert not slots.followed.any()
    moved = found((3, 5, 6, 6, 100), (9, 10, 14, 20, 200), (20, 2, 23, 8, 150))
    slots = follow(slots, moved, reach=4)
    assert slots.moves[0, :2].tolist() == [[-1, 0], [1, 2]]
    assert slots.followed.tolist() == [[True, True, False, False]]
    assert slots.boxes.top[0].tolist() == [9, 3, 20, 0]


def test_neither_another_colour_nor_a_leap_is_followed_and_another_size_has_not_moved():
    slots = follow(Slots.empty(1, 2, CPU), found((2, 3, 5, 4, 100), slots=2), reach=4)
    for later in ((2, 3, 5, 4, 200), (2, 9, 5, 10, 100)):
        assert not follow(slots, found(later, slots=2), reach=4).followed.any()
    smaller = follow(slots, found((2, 3, 4, 4, 100), slots=2), reach=4)
    assert not smaller.followed.any()
    assert not smaller.moves.any()


def test_conditions_name_walls_things_and_the_last_move():
    walls = torch.zeros(PX_H, PX_W, dtype=torch.bool)
    walls[8] = True
    slots = follow(Slots.empty(1, 2, CPU), found((11, 1, 15, 3, 100), (11, 20, 12, 21, 200), slots=2), reach=4)
    later = found((10, 1, 14, 3, 100), (12, 6, 13, 7, 200), slots=2)
    bits = conditions(follow(slots, later, reach=4), walls)[0, 0]
    true = {name for name, bit in zip(NAMES, bits.tolist(), strict=True) if bit}
    assert true == {
        *(f"wall north within {gap}" for gap in (1, 3)),  # one free row
        *(f"wall west within {gap}" for gap in (1, 3)),  # the frame's border, one column away
        "object east within 3",  # two free columns
        "moved north",
    }
    assert torch.equal(unpacked(packed(bits)), bits)


def test_walls_are_what_differs_from_the_ground():
    background = BLACK.clone()
    background[:2] = 90
    assert torch.equal(walls_of(background), background > 0)
    assert not walls_of(torch.full_like(BLACK, 90)).any()


def learnt(rules: Rules, moves: list[tuple[bool, int, int]], kind: int = 5, action: int = 1, times: int = 10) -> None:
    """(bit 0, bit 1 at random, move down) as often as said; the other bits are 0."""
    generator = torch.Generator().manual_seed(0)
    for blocked, move, repeats in moves:
        n = times * repeats
        bits = torch.zeros(n, len(NAMES), dtype=torch.bool)
        bits[:, 0] = blocked
        bits[:, 1] = torch.rand(n, generator=generator) < 0.5
        way = torch.tensor([[move, 0]]).expand(n, 2)
        rules.learn(torch.full((n,), kind), torch.full((n,), action), way, bits, torch.ones(n, dtype=torch.bool))


def asked(rules: Rules, blocked: bool, other: bool = False, kind: int = 5, action: int = 1) -> tuple[int, bool]:
    bits = torch.zeros(1, len(NAMES), dtype=torch.bool)
    bits[0, :2] = torch.tensor([blocked, other])
    said = rules.predict(torch.tensor([kind]), bits)
    return int(said.moves[0, action, 0]), bool(said.known[0, action, 0])


def test_a_rule_keeps_the_bit_that_matters_and_drops_the_one_that_does_not():
    rules = Rules(n_actions=2, device=CPU)
    learnt(rules, [(False, -2, 10), (True, 0, 5)])
    for other in (False, True):
        assert asked(rules, False, other) == (-2, True)
        assert asked(rules, True, other) == (0, True)  # the failure condition
    assert asked(rules, False, kind=6) == (0, False)
    assert asked(rules, False, action=0) == (0, False)
    wanted = rules.described(5, 1, 0)
    assert wanted[-2][NAMES[0]] is False
    assert wanted[0][NAMES[0]] is True
    assert NAMES[1] not in wanted[-2]


def test_a_condition_never_seen_is_unknown_and_so_are_rules_that_contradict_each_other():
    rules = Rules(n_actions=2, device=CPU)
    learnt(rules, [(False, -2, 10)])
    assert asked(rules, True) == (0, False)
    learnt(rules, [(False, 3, 9)])
    assert asked(rules, False) == (0, False)


def test_some_noise_does_not_spoil_a_rule():
    rules = Rules(n_actions=2, device=CPU)
    learnt(rules, [(False, -2, 100), (True, 0, 50), (True, -2, 1), (False, 5, 1)], times=1)
    assert asked(rules, False) == (-2, True)
    assert asked(rules, True) == (0, True)


def test_the_agents_class_is_the_one_that_actions_move():
    rules, generator = Rules(n_actions=2, device=CPU), torch.Generator().manual_seed(0)
    n = 400
    actions = torch.randint(2, (n,), generator=generator)
    anyhow = torch.randint(-3, 4, (n, 2), generator=generator)
    obeys = torch.stack([2 * actions - 1, torch.zeros_like(actions)], -1)
    bits, valid = torch.zeros(n, len(NAMES), dtype=torch.bool), torch.ones(n, dtype=torch.bool)
    rules.learn(torch.full((n,), 3), actions, anyhow, bits, valid)
    rules.learn(torch.full((n,), 7), actions, obeys, bits, valid)
    assert rules.agent == 7


def test_what_is_not_valid_teaches_nothing():
    rules = Rules(n_actions=2, device=CPU)
    bits = torch.zeros(4, len(NAMES), dtype=torch.bool)
    index = torch.zeros(4, dtype=torch.int64)
    rules.learn(index, index, torch.zeros(4, 2, dtype=torch.int64), bits, torch.zeros(4, dtype=torch.bool))
    rules.learn(index, index, torch.full((4, 2), 99), bits, torch.ones(4, dtype=torch.bool))  # too far to be true
    assert not rules.counts.any()


def test_classes_are_shades_and_sizes():
    boxes = found((2, 3, 5, 4, 100), (10, 10, 15, 20, 200), slots=3)
    kinds = classes_of(boxes)[0].tolist()
    assert kinds[2] == -1
    assert kinds[0] != kinds[1]
    assert all(0 <= kind < N_CLASSES for kind in kinds[:2])
