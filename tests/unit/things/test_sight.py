"""Things by sight: found, followed, and told from each other."""

import torch

from megareward.things.sight import apart, farthest, find, follow, inside, pixels

PX_H, PX_W, S = 24, 30, 5
BLACK = torch.zeros(PX_H, PX_W, dtype=torch.uint8)


def draw(*rectangles: tuple[int, int, int, int, int]) -> torch.Tensor:
    """(top, left, height, width, level) each."""
    frame = BLACK.clone()
    for top, left, height, width, level in rectangles:
        frame[top : top + height, left : left + width] = level
    return frame


def seen(*frames: torch.Tensor):
    return follow(find(torch.stack(frames)[None], BLACK, S), farthest((PX_H, PX_W)))


def slot_of(things, f: int, level: int) -> int:
    (slots,) = ((things.levels[0, f] == level) & things.there[0, f]).nonzero(as_tuple=True)
    assert len(slots) == 1
    return int(slots[0])


def test_a_thing_keeps_its_slot_a_new_one_is_fresh_and_who_left_is_gone():
    ball = [(3 + t, 4 + t, 2, 2, 200) for t in range(4)]
    box = (15, 10, 3, 5, 100)
    things = seen(draw(ball[0], box), draw(ball[1], box), draw(ball[2], box, (8, 20, 2, 3, 250)), draw(ball[3]))
    own = slot_of(things, 0, 200)
    assert [slot_of(things, f, 200) for f in range(4)] == [own] * 4
    assert things.goes_on[0, :, own].tolist() == [False, True, True, True]
    assert things.boxes[0, 2, own].tolist() == [5, 6, 7, 8]
    new = slot_of(things, 2, 250)
    assert things.fresh[0, 2, new]
    assert not things.fresh[0, 1:, own].any()
    assert things.there.sum((0, 2)).tolist() == [2, 2, 3, 1]
    known = things.known_since()[0]  # of what the last frame but one shows
    assert known[:, own].all()
    assert known[:, new].tolist() == [False, False, True, False]


def test_a_single_pixel_is_no_thing_nor_is_a_third_of_the_screen():
    things = seen(draw((3, 3, 1, 1, 200)), draw((0, 0, 10, PX_W, 90)))
    assert not things.there.any()


def test_what_covers_a_thing_is_not_part_of_it():
    frame = draw((5, 5, 6, 10, 100), (7, 8, 2, 2, 220))  # something bright in front of something dark
    things = seen(frame, frame)
    own = pixels(things.boxes, things.levels, torch.stack([frame, frame])[None, :, None], BLACK)
    for level in (100, 220):
        assert torch.equal(own[0, 1, slot_of(things, 1, level)], frame == level)


def test_boxes_and_how_far_they_are_apart_as_loops():
    boxes = torch.tensor([[2, 3, 5, 9], [0, 0, 1, 1], [0, 0, 0, 0], [10, 20, 24, 30]])
    masks = inside(boxes, PX_H, PX_W)
    for box, mask in zip(boxes.tolist(), masks, strict=True):
        for y in range(PX_H):
            for x in range(PX_W):
                assert mask[y, x] == (box[0] <= y < box[2] and box[1] <= x < box[3])
    assert apart(boxes[0], boxes[1]).item() == 2  # one row, two columns between
    assert apart(boxes[0], boxes[3]).item() == 11
    assert apart(boxes[0], boxes[0]).item() == 0
