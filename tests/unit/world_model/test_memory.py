"""M: the mixture against torch's own, and that no episode is remembered in the next."""

import torch
from torch.distributions import Categorical, MixtureSameFamily, Normal

from megareward.world_model.memory import Memory, Mixture, memory_loss

T, N, Z, A, HIDDEN, K = 5, 3, 4, 6, 8, 2


def mixture(generator: torch.Generator, B: int = 7) -> Mixture:
    weight, mean, log_std = (torch.randn(B, Z, K, generator=generator) for _ in range(3))
    return Mixture(weight.log_softmax(-1), mean, log_std)


def torchs(own: Mixture) -> MixtureSameFamily:
    return MixtureSameFamily(Categorical(logits=own.log_weight), Normal(own.mean, own.log_std.exp()))


def test_the_mixture_is_a_mixture_of_normal_distributions(generator):
    own, z = mixture(generator), torch.randn(7, Z, generator=generator)
    torch.testing.assert_close(own.log_prob(z), torchs(own).log_prob(z).sum(-1))
    torch.testing.assert_close(own.expected(), torchs(own).mean)


def test_samples_have_its_mean_and_its_spread_and_heat_widens_them(generator):
    own = Mixture(*(x[:1].expand(20_000, -1, -1) for x in mixture(generator)))
    drawn = own.sample(generator)
    torch.testing.assert_close(drawn.mean(0), own.expected()[0], atol=0.1, rtol=0.1)
    torch.testing.assert_close(drawn.var(0), torchs(own).variance[0], atol=0.3, rtol=0.1)
    certain = Mixture(own.log_weight[:, :, :1] * 0, own.mean[:, :, :1], own.log_std[:, :, :1])
    ratio = certain.sample(generator, temperature=4.0).std(0) / certain.sample(generator).std(0)
    torch.testing.assert_close(ratio, torch.full((Z,), 2.0), atol=0.1, rtol=0.0)


def recording(generator: torch.Generator):
    z = torch.randn(T + 1, N, Z, generator=generator)
    actions = torch.randint(A, (T, N), generator=generator)
    nothing = torch.zeros(T + 1, N, dtype=torch.bool)
    state = tuple(torch.randn(N, HIDDEN, generator=generator) for _ in range(2))
    return z, actions, nothing, state


def test_a_first_frame_begins_without_memory_and_the_step_to_it_is_not_learnt(generator):
    memory = Memory(Z, A, HIDDEN, K)
    z, actions, nothing, state = recording(generator)
    first = nothing.clone()
    first[2, 1] = True
    before = memory_loss(memory, z, actions, first, nothing, state)["total"]
    other = z.clone()
    other[:2, 1] += 10.0  # all of the episode before; its last frame is foreseen by nobody else
    one, two = (memory_loss(memory, x, actions, first, nothing, state) for x in (z, other))
    lost = [
        memory_loss(
            memory, x[:3, 1:2], actions[:2, 1:2], first[:3, 1:2], nothing[:3, 1:2], tuple(s[1:2] for s in state)
        )
        for x in (z, other)
    ]
    # Real transitions: T * N - 1; environment 1 has one before its reset.
    real = T * N - 1
    difference = (two["code"] - one["code"]) * real
    torch.testing.assert_close(difference, lost[1]["code"] - lost[0]["code"], rtol=1e-3, atol=1e-3)
    assert before.isfinite()


def test_the_state_at_the_beginning_counts_unless_an_episode_opens_there(generator):
    memory = Memory(Z, A, HIDDEN, K)
    z, actions, nothing, state = recording(generator)
    zero = tuple(torch.zeros_like(s) for s in state)
    assert (
        memory_loss(memory, z, actions, nothing, nothing, state)["total"]
        != (memory_loss(memory, z, actions, nothing, nothing, zero)["total"])
    )
    first = nothing.clone()
    first[0] = True
    torch.testing.assert_close(
        memory_loss(memory, z, actions, first, nothing, state)["total"],
        memory_loss(memory, z, actions, first, nothing, zero)["total"],
    )
