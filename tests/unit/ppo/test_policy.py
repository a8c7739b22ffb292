"""The network's shapes, its trunk rule, and the way it draws actions."""

import pytest
import torch
from torch import nn

from megareward.errors import UsageError
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import InputSizes, Policy, convolve_blocks, fits_blocks, sample
from megareward.reward_stream import RewardStream
from megareward.statistics.normaliser import Normaliser

B, A, S = 5, 7, 2


@pytest.mark.parametrize("shape", [(84, 84), (32, 32), (40, 48)])
def test_logits_and_values_have_one_row_per_sample(shape):
    policy = Policy(shape, A, S, PolicyConfig())
    logits, values = policy(torch.randint(0, 256, (B, 4, *shape), dtype=torch.uint8))
    assert logits.shape == (B, A)
    assert values.shape == (B, S)


def test_extra_channels_reach_the_network():
    policy = Policy((32, 32), A, S, PolicyConfig(stack=3), InputSizes(channels=1))
    stack = torch.zeros(B, 3, 32, 32, dtype=torch.uint8)
    plain = policy(stack, torch.zeros(B, 1, 32, 32))[1]
    lit = policy(stack, torch.ones(B, 1, 32, 32))[1]
    assert not torch.equal(plain, lit)


def test_a_fresh_policy_is_nearly_uniform():
    logits, _ = Policy((84, 84), A, S, PolicyConfig())(torch.randint(0, 256, (B, 4, 84, 84), dtype=torch.uint8))
    assert torch.softmax(logits, -1).sub(1 / A).abs().max() < 0.05


def test_frames_too_small_for_the_trunk_are_refused():
    with pytest.raises(UsageError, match="too small"):
        Policy((32, 32), A, S, PolicyConfig(trunk="nature"))


def test_actions_are_drawn_with_their_probabilities(generator):
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    exponentials = torch.empty(40_000, 3).exponential_(generator=generator)
    actions = sample(probabilities.log().expand(40_000, 3), exponentials)
    frequencies = torch.bincount(actions, minlength=3) / 40_000
    torch.testing.assert_close(frequencies, probabilities, atol=0.01, rtol=0)


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"minibatches": 0},
        {"learning_rate": 0.0},
        {"learning_rate": 2.0},
        {"gae_lambda": 1.5},
        {"clip": -0.1},
    ],
)
def test_impossible_hyper_parameters_are_refused_by_name(bad):
    with pytest.raises(UsageError, match=next(iter(bad))):
        PPOConfig(**bad)


def test_an_impossible_discount_is_refused():
    with pytest.raises(UsageError, match=r"1\.5"):
        RewardStream("x", discount=1.5)


@pytest.mark.parametrize(("kernel", "stride", "E"), [(8, 4, 0), (8, 4, 1), (4, 2, 2), (6, 3, 1)])
def test_a_convolution_of_blocks_is_the_convolution(kernel, stride, E):
    B, C, features, px_h, px_w = 2, 4, 5, 12 * stride, 7 * stride
    conv = nn.Conv2d(C + E, features, kernel, stride).double()
    generator = torch.Generator().manual_seed(0)
    stack = torch.randint(256, (B, C, px_h, px_w), dtype=torch.uint8, generator=generator)
    extra = torch.rand(B, E, px_h, px_w, dtype=torch.float64, generator=generator) if E else None
    assert fits_blocks(conv, (px_h, px_w))
    seen = stack.double() / 255 if extra is None else torch.cat([stack.double() / 255, extra], 1)
    expected, got = conv(seen), convolve_blocks(conv, stack, extra, torch.float64)
    torch.testing.assert_close(got, expected)
    weights = torch.rand(expected.shape, dtype=torch.float64, generator=generator)
    gradients = [torch.autograd.grad(y, list(conv.parameters()), weights) for y in (expected, got)]
    for wanted, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted)


def normaliser(mean: torch.Tensor, std: float, dtype: torch.dtype = torch.float32) -> Normaliser:
    made = Normaliser("pixel", tuple(mean.shape), 1, mean.device)
    made.mean, made.std = mean.to(dtype), torch.tensor(std, dtype=dtype)
    return made


@pytest.mark.parametrize(("kernel", "stride", "E"), [(8, 4, 0), (8, 4, 1), (4, 2, 2)])
def test_a_convolution_of_normalised_blocks_is_the_convolution_bit_for_bit_where_nothing_is_rounded(kernel, stride, E):
    """Whole numbers, and a power of 2 to divide by: every sum is exact, whatever its order."""
    B, C, features, px_h, px_w = 2, 4, 5, 12 * stride, 7 * stride
    conv = nn.Conv2d(C + E, features, kernel, stride).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in conv.parameters():
        parameter.data = torch.randint(-9, 10, parameter.shape, generator=generator).double()
    stack = torch.randint(256, (B, C, px_h, px_w), dtype=torch.uint8, generator=generator)
    stack[0, :2] = 0  # the padding of a new episode is scaled like any frame
    extra = torch.randint(2, (B, E, px_h, px_w), generator=generator).double() if E else None
    mean = torch.randint(256, (px_h, px_w), generator=generator)
    scaled = (stack.double() - mean.double()) / 16
    expected = conv(scaled if extra is None else torch.cat([scaled, extra], 1))
    got = convolve_blocks(conv, stack, extra, torch.float64, normaliser(mean, 16.0, torch.float64))
    assert torch.equal(got, expected)
    weights = torch.randint(-9, 10, expected.shape, generator=generator).double()
    gradients = [torch.autograd.grad(y, list(conv.parameters()), weights) for y in (expected, got)]
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))


def test_a_policy_sees_normalised_frames_by_blocks_as_it_does_plainly():
    generator = torch.Generator().manual_seed(0)
    stack = torch.randint(256, (B, 4, 84, 84), dtype=torch.uint8, generator=generator)
    own = normaliser(255 * torch.rand(84, 84, generator=generator), 23.5)
    policy = Policy((84, 84), A, S, PolicyConfig(), normaliser=own)
    first = policy.trunk[0]
    plain = first((stack - own.mean) / own.std)
    torch.testing.assert_close(convolve_blocks(first, stack, None, torch.float32, own), plain, atol=2e-5, rtol=1e-5)
    rest = policy.trunk[1:](plain)
    torch.testing.assert_close(policy.features(stack), rest, atol=2e-5, rtol=1e-5)


def test_frames_that_the_stride_does_not_divide_have_no_blocks():
    conv = nn.Conv2d(4, 5, 8, 4)
    assert not fits_blocks(conv, (84, 86))
    assert not fits_blocks(nn.Conv2d(4, 5, 3, 2), (84, 84))
