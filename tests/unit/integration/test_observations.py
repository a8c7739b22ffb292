"""Any image in, the newest grey frame out; anything else is refused in a sentence. Fuzzed."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.errors import UsageError
from megareward.integration.observations import FrameReader, discrete, read_actions, read_flags, read_rewards

N = 3
few = settings(max_examples=60, deadline=None)

KINDS = {
    "bytes": (np.uint8, 0, 255),
    "unit": (np.float32, 0.0, 1.0),
    "signed": (np.float64, -1.0, 1.0),
    "wide": (np.int32, 0, 255),
    "black and white": (np.uint8, 0, 1),
}


@st.composite
def images(draw):
    """A space of images, observations of it, and the grey frames (N, h, w) that are the newest in them."""
    h, w = draw(st.integers(32, 70)), draw(st.integers(32, 70))
    colours = draw(st.sampled_from([1, 3]))
    k = draw(st.integers(1, 5))
    layout = draw(st.sampled_from(["flat", "first", "last", "frames first", "frames last"]))
    dtype, low, high = KINDS[draw(st.sampled_from(list(KINDS)))]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    levels = random.integers(0, 2 if (low, high) == (0, 1) and dtype == np.uint8 else 256, (N, k, h, w))
    grey = levels * (255 if levels.max() <= 1 else 1)
    values = (low + grey / 255 * (high - low)).astype(dtype)
    if layout == "flat":
        k, colours, x = 1, 1, values[:, -1]
        grey = grey[:, -1:]
    else:
        x = np.repeat(values[:, :, None], colours, 2)  # (N, k, c, h, w)
        if "last" in layout:
            x = np.moveaxis(x, 2, -1)  # (N, k, h, w, c)
        if layout == "first":
            x = x.reshape(N, k * colours, h, w)
        elif layout == "last":
            x = np.moveaxis(x, 1, -2).reshape(N, h, w, k * colours)
    space = spaces.Box(low, high, x.shape[1:], dtype)
    stack = k if layout in ("first", "last") else None
    return space, stack, x, grey[:, -1]


@given(images(), st.booleans())
@few
def test_the_newest_frame_is_read_from_every_layout_type_and_range(image, as_tensor):
    space, stack, x, grey = image
    reader = FrameReader(space, stack=stack)
    frames = reader.read(torch.from_numpy(x) if as_tensor else x, (N,))
    assert frames.dtype == torch.uint8
    assert np.abs(frames.numpy().astype(int) - grey).max() <= 1  # luma of three equal greys may round
    assert reader.frame_shape == reader.picture_shape == grey.shape[1:]
    assert torch.equal(reader.read(x[None], (1, N)), frames[None])
    frames.fill_(7)
    assert torch.equal(reader.read(x, (N,))[0], reader.read(x[:1], (1,))[0])  # what is read is a copy


sides = st.sampled_from([1, 2, 3, 4, 6, 12, 31, 32, 33, 40, 64, 257])
shapes = st.lists(sides, min_size=0, max_size=5).map(tuple).filter(lambda shape: np.prod(shape) < 50_000)
other_spaces = st.sampled_from(
    [
        spaces.Discrete(4),
        spaces.MultiBinary(9),
        spaces.MultiDiscrete([3, 4]),
        spaces.Text(5),
        spaces.Dict({"image": spaces.Box(0, 255, (32, 32), np.uint8)}),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.Box(-np.inf, np.inf, (32, 32), np.float32),
        spaces.Box(np.array([[0.0] * 32] * 31 + [[0.5] * 32]), np.ones((32, 32)), dtype=np.float64),
    ]
)


@given(shapes, st.sampled_from([None, 1, 2, 3, 4]), st.sampled_from([None, 36, (32, 40), 300]), st.data())
@few
def test_any_space_either_works_or_is_refused_with_its_shape(shape, stack, resize, data):
    space = spaces.Box(0, 255, shape, np.uint8)
    reader, refusal = None, ""
    try:
        reader = FrameReader(space, grid=(4, 4), stack=stack, resize=resize)
    except UsageError as error:
        refusal = str(error)
    if reader is None:
        assert str(shape) in refusal or "pixels" in refusal
        return
    x = np.stack([space.sample() for _ in range(N)])
    frames = reader.read(x, (N,))
    assert tuple(frames.shape) == (N, *reader.frame_shape)
    assert all(side % 4 == 0 and 32 <= side <= 256 for side in reader.frame_shape)
    wrong = data.draw(shapes)
    if wrong != (N, *shape):
        with pytest.raises(UsageError, match="expected"):
            reader.read(np.zeros(wrong, np.uint8), (N,))


@given(other_spaces)
@few
def test_spaces_that_are_no_images_are_refused(space):
    with pytest.raises(UsageError, match=r"observation space|shape"):
        FrameReader(space)


def test_twelve_channels_are_ambiguous_until_the_stack_is_named():
    space = spaces.Box(0, 255, (12, 32, 36), np.uint8)
    with pytest.raises(UsageError, match="stack=12 or stack=4"):
        FrameReader(space)
    x = np.zeros((N, 12, 32, 36), np.uint8)
    x[:, 9:] = np.array([255, 0, 0])[:, None, None]  # the newest of four frames is red
    assert FrameReader(space, stack=4).read(x, (N,)).unique().tolist() == [76]  # 0.299 * 255
    assert FrameReader(space, stack=12).read(x, (N,)).unique().tolist() == [0]  # the last of twelve grey ones is black
    with pytest.raises(UsageError, match="neither 5 grey frames nor 5"):
        FrameReader(space, stack=5)


def test_a_size_the_grid_does_not_divide_is_refused_or_resized_by_choice():
    space = spaces.Box(0, 255, (210, 160), np.uint8)
    with pytest.raises(UsageError, match=r"210 x 160 pixels cannot be cut into 4 x 4 cells: h is 210.*such as 208"):
        FrameReader(space, grid=(4, 4))
    reader = FrameReader(space, grid=(4, 4), resize=84)
    x = np.zeros((1, 210, 160), np.uint8)
    x[:, :105] = 200
    frame = reader.read(x, (1,))[0]
    assert tuple(frame.shape) == (84, 84)
    assert frame[:42].unique().tolist() == [200]
    assert frame[42:].unique().tolist() == [0]


def test_values_outside_the_space_are_refused_not_clipped():
    unit = FrameReader(spaces.Box(0, 1, (32, 36), np.float32))
    for wrong in (1.5, -0.1, np.nan, np.inf):
        x = np.zeros((N, 32, 36), np.float32)
        x[1, 2, 3] = wrong
        with pytest.raises(UsageError, match="from 0 to 1"):
            unit.read(x, (N,))
    levels = FrameReader(spaces.Box(0, 255, (32, 36), np.uint8))
    whole = np.full((N, 32, 36), 77, np.float32)  # a float buffer of bytes, as in many PPO scripts
    assert levels.read(whole, (N,)).unique().tolist() == [77]
    with pytest.raises(UsageError, match=r"fractions such as 0\.302.*unscaled"):
        levels.read(whole / 255, (N,))


def test_the_space_of_the_whole_batch_is_noticed():
    reader = FrameReader(spaces.Box(0, 255, (N, 32, 36), np.uint8), stack=N)
    with pytest.raises(UsageError, match="single_observation_space"):
        reader.read(np.zeros((N, 32, 36), np.uint8), (N,))


@given(
    st.integers(-3, 9), st.integers(1, 6), st.integers(-2, 2), st.sampled_from(["int64", "float32", "uint8", "bool"])
)
@few
def test_actions_are_whole_numbers_of_the_space_or_refused(value, n, start, dtype):
    space = spaces.Discrete(n, start=start)
    x = np.full((N, 1), value).astype(dtype)
    if start <= int(x[0, 0]) < start + n:
        assert read_actions(space, x, (N,)).tolist() == [int(x[0, 0]) - start] * N
        assert read_actions(space, x[:, 0], (N,)).dtype == torch.int64
    else:
        with pytest.raises(UsageError, match="Discrete"):
            read_actions(space, x, (N,))


def test_flags_rewards_and_actions_of_another_shape_or_kind_are_refused():
    with pytest.raises(UsageError, match=r"terminateds have the shape \(3, 1\); expected \(3,\)"):
        read_flags(np.zeros((N, 1), bool), (N,), "terminateds")
    with pytest.raises(UsageError, match="hold 2"):
        read_flags([0, 1, 2], (N,), "terminateds")
    assert read_flags(torch.tensor([0.0, 1.0, 0.0]), (N,), "terminateds").tolist() == [False, True, False]
    with pytest.raises(UsageError, match=r"rewards have the shape \(\)"):
        read_rewards(1.0, (N,))
    with pytest.raises(UsageError, match=r"0\.5; a discrete action"):
        read_actions(spaces.Discrete(2), [0.5, 0, 0], (N,))
    with pytest.raises(UsageError, match="array of object"):
        read_rewards([None, 1, 2], (N,))
    for space in (spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)):
        with pytest.raises(UsageError, match="Discrete actions only"):
            discrete(space)
    with pytest.raises(UsageError, match="single_action_space"):
        discrete(spaces.MultiDiscrete([4, 4, 4]))
