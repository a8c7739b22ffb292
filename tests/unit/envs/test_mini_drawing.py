import pytest
import torch

from megareward.envs.mini.drawing import CEILING, WALL_LEVEL, Canvas, Shape, paint

CPU = torch.device("cpu")


def test_a_two_unit_box_is_two_pixels_at_every_place_of_the_smallest_frame():
    corner = torch.arange(0, 30, 1 / 8)  # (N,)
    box = Canvas.of_size(32, CPU).box(corner, corner + 0.5, height=2.0, width=2.0, level=9)
    assert (box.sum((1, 2)) == 2 * 2 * 9).all()
    assert (box.amax((1, 2)) == 9).all()


@pytest.mark.parametrize("size", [32, 40, 48, 84, 256])
def test_a_box_covers_the_same_share_of_the_frame_at_every_size(size):
    box = Canvas.of_size(size, CPU).box(10.0, 4.0, height=8.0, width=16.0, level=1)  # (1, size, size)
    rows, columns = box[0].any(1).sum().item(), box[0].any(0).sum().item()
    assert abs(rows - size * 8 / 32) < 1
    assert abs(columns - size * 16 / 32) < 1


def test_a_box_lies_where_it_should_and_may_leave_the_picture():
    box = Canvas.of_size(32, CPU).box(
        torch.tensor([3.0, -1.0]), torch.tensor([31.0, 5.0]), height=4.0, width=2.0, level=7
    )
    expected = torch.zeros(2, 32, 32, dtype=torch.uint8)
    expected[0, 3:7, 31:] = 7
    expected[1, 0:3, 5:7] = 7
    assert torch.equal(box, expected)


def test_a_camera_that_moves_right_and_down_shifts_the_picture_left_and_up():
    canvas = Canvas.of_size(32, CPU)
    moved = canvas.seen_from(camera_y=torch.tensor([2.0, 0.0]), camera_x=torch.tensor([3.0, -1.0]))
    still, seen = canvas.box(10.0, 10.0, 4.0, 4.0, level=5)[0], moved.box(10.0, 10.0, 4.0, 4.0, level=5)
    assert torch.equal(seen[0], still.roll((-2, -3), (0, 1)))
    assert torch.equal(seen[1], still.roll((0, 1), (0, 1)))


def test_the_ceiling_ends_where_the_game_begins():
    ceiling = Canvas.of_size(32, CPU).ceiling().pixels[0]
    assert (ceiling[int(CEILING) - 1] == WALL_LEVEL).all()
    assert (ceiling[int(CEILING) :] == 0).all()


def test_the_brighter_shape_is_seen():
    frames = torch.zeros(1, 1, 3, dtype=torch.uint8)
    shapes = [Shape("a", torch.tensor([[[9, 5, 0]]])), Shape("b", torch.tensor([[[2, 7, 0]]]))]
    paint(frames, [Shape(shape.name, shape.pixels.to(torch.uint8)) for shape in shapes])
    assert frames.tolist() == [[[9, 7, 0]]]
