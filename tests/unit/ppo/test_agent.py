"""The agent: what it decides and writes down, and whose weights it can take over."""

from dataclasses import replace

import pytest
import torch

from megareward.errors import UsageError
from megareward.ppo.agent import CARRIED_OVER, PPOAgent, RandomAgent
from megareward.ppo.config import PolicyConfig, PPOConfig
from megareward.ppo.policy import PolicyInputs
from megareward.ppo.update import AuxiliaryLoss
from megareward.reward_stream import RewardStream
from megareward.rollout import Field, Rollout
from megareward.world import World

T, N, A, STACK = 4, 3, 7, 2
CPU = torch.device("cpu")
WORLD = World(N, A, (32, 36), CPU, seed=1)
FIELDS = (Field("map", (6,), picture=(2, 3)),)
ON = torch.ones(())


def agent(
    world: World = WORLD,
    n_streams: int = 1,
    trunk: str = "auto",
    inputs: PolicyInputs | None = None,
    auxiliary=None,
    normalise: str = "fixed",
) -> PPOAgent:
    rollout = Rollout(T, world, STACK, fields=FIELDS, n_streams=n_streams)
    random = torch.Generator().manual_seed(3)
    rollout.all_frames.copy_(torch.randint(256, rollout.all_frames.shape, dtype=torch.uint8, generator=random))
    streams = [RewardStream(f"reward {i}") for i in range(n_streams)]
    config, policy = PPOConfig(minibatches=2, epochs=1), PolicyConfig(trunk=trunk, stack=STACK, normalise=normalise)
    generator = torch.Generator().manual_seed(0)
    return PPOAgent(world, rollout, streams, config, policy, inputs or PolicyInputs(), generator, auxiliary)


def weights(of: PPOAgent) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in of.policy.state_dict().items()}


def different(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> set[str]:
    assert one.keys() == two.keys()
    return {name for name in one if not torch.equal(one[name], two[name])}


def trained(of: PPOAgent) -> PPOAgent:
    """After one update on random numbers."""
    random, rollout = torch.Generator().manual_seed(5), of.rollout
    for t in range(T):
        index = rollout.index(t)
        rollout.decide(index, of.decide(index, torch.empty(N, A).exponential_(generator=random), ON))
    rollout.value(rollout.index(T), of.values(rollout.index(T)))
    samples, _ = of.samples([torch.randn(T, N, generator=random) for _ in of.streams])
    of.learn(samples, left=1.0)
    return of


# Deciding ------------------------------------------------------------------------------------------------------------


def test_a_decision_holds_the_probability_of_every_action_and_a_value_per_stream():
    two = agent(n_streams=2)
    decision = two.decide(two.rollout.index(1), torch.ones(N, A), ON)
    assert decision.actions.shape == decision.log_probs.shape == (N,)
    assert decision.values.shape == (N, 2)
    torch.testing.assert_close(decision.log_policy.exp().sum(-1), torch.ones(N))
    assert torch.equal(decision.log_policy.gather(1, decision.actions[:, None])[:, 0], decision.log_probs)
    assert not decision.log_policy.requires_grad


def test_while_the_policy_has_no_say_all_actions_are_equally_likely_as_in_random_play():
    learning, random = agent(), RandomAgent(WORLD)
    index, exponentials = learning.rollout.index(0), torch.rand(N, A, generator=torch.Generator().manual_seed(0))
    one, two = learning.decide(index, exponentials, 0 * ON), random.decide(index, exponentials, ON)
    torch.testing.assert_close(one.log_policy.exp(), torch.full((N, A), 1 / A))
    for name in ("actions", "log_probs", "log_policy"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert torch.equal(one.actions, exponentials.argmin(-1))


# Taking over weights -------------------------------------------------------------------------------------------------


def test_another_run_gives_its_trunk_and_action_head_and_nothing_else():
    """Its rewards were others, so that its value head has no meaning here, not even a fitting shape."""
    giver, taker = trained(agent(n_streams=2)), trained(agent(replace(WORLD, seed=2)))
    theirs, mine, moments = weights(giver), weights(taker), taker.state_dict()
    taker.load_policy(theirs, CARRIED_OVER)
    now = weights(taker)
    carried = {name for name in now if name.split(".")[0] in ("trunk", "action_head")}
    assert {name.split(".")[0] for name in now} == {"trunk", "action_head", "value_head"}
    assert all(torch.equal(now[name], theirs[name]) for name in carried)
    assert different(now, mine) == carried
    optimiser = {name: x for name, x in taker.state_dict().items() if name.startswith("optimiser.")}
    assert optimiser
    assert different(optimiser, {name: moments[name] for name in optimiser}) == set()


def test_what_was_taken_over_is_a_copy():
    giver, taker = agent(), agent(replace(WORLD, seed=2))
    given = giver.policy.state_dict()
    kept = weights(giver)
    taker.load_policy(given, CARRIED_OVER)
    trained(taker)
    assert different(weights(giver), kept) == set()


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"world": replace(WORLD, n_actions=9)}, r"action_head\.weight is \(9, 128\) there and \(7, 128\) here"),
        ({"world": replace(WORLD, frame_shape=(40, 36))}, r"trunk\.5\.weight is \(128, 2304\) there and \(128, 1792\)"),
        ({"inputs": PolicyInputs(channels=("map",))}, r"trunk\.0\.weight is \(16, 3, 4, 4\) there and \(16, 2, 4, 4\)"),
    ],
)
def test_weights_of_another_shape_are_refused_in_a_sentence_and_nothing_is_taken_over(other, sentence):
    taker = agent()
    before = weights(taker)
    with pytest.raises(UsageError, match=f"do not fit this policy: {sentence}.*The game's actions, the frames' size"):
        taker.load_policy(agent(**other).policy.state_dict(), CARRIED_OVER)
    assert different(weights(taker), before) == set()


def test_weights_of_another_trunk_are_refused():
    large = replace(WORLD, frame_shape=(84, 84))
    with pytest.raises(UsageError, match=r"trunk\.4\.weight is \(64, 64, 3, 3\) there and \(32, 64, 3, 3\) here"):
        agent(large, trunk="nature-32").load_policy(agent(large).policy.state_dict(), CARRIED_OVER)


def test_a_state_without_a_policy_is_refused():
    with pytest.raises(UsageError, match="do not fit this policy: 0 tensors there"):
        agent().load_policy({}, CARRIED_OVER)


def test_all_weights_are_taken_over_only_if_all_are_there():
    giver, taker = agent(), agent(replace(WORLD, seed=2))
    given = giver.policy.state_dict()
    with pytest.raises(UsageError, match="9 tensors there, 10 here"):
        taker.load_policy({name: x for name, x in given.items() if name != "value_head.bias"})
    with pytest.raises(UsageError, match=r"value_head\.weight is \(2, 128\) there and \(1, 128\) here"):
        taker.load_policy(agent(n_streams=2).policy.state_dict())
    taker.load_policy(given)
    assert different(weights(taker), weights(giver)) == set()


def test_statistics_of_the_frames_are_handed_over_with_the_weights_that_were_trained_on_them():
    giver, taker = agent(normalise="pixel"), agent(replace(WORLD, seed=2), normalise="pixel")
    giver.observe(giver.rollout.recorded())
    taker.load_policy(giver.policy_state(), CARRIED_OVER)
    assert torch.equal(taker.policy.normaliser.mean, giver.policy.normaliser.mean)
    assert taker.normaliser.n_seen == giver.normaliser.n_seen == T * N
    with pytest.raises(UsageError, match=r"normaliser\..* missing here"):
        agent().load_policy(giver.policy_state(), CARRIED_OVER)
    with pytest.raises(UsageError, match="8 tensors there, 14 here"):
        giver.load_policy(agent().policy_state(), CARRIED_OVER)


# Scaling frames ------------------------------------------------------------------------------------------------------


def test_a_rollout_changes_how_the_next_one_is_seen_and_only_in_the_frames_that_count():
    one = agent(normalise="pixel")
    one.normaliser.n_frames = T * N + 2
    before, mean = one.values(one.rollout.index(1)), one.policy.normaliser.mean
    one.observe(one.rollout.recorded())
    frames = one.rollout.recorded().frames[1:].flatten(0, 1).float()
    torch.testing.assert_close(mean, frames.mean(0))  # in place: a captured graph reads this very tensor
    assert not torch.equal(one.values(one.rollout.index(1)), before)
    for _ in range(2):  # two frames more, and then none
        one.observe(one.rollout.recorded())
    assert one.normaliser.n_seen == T * N + 2


# Saving --------------------------------------------------------------------------------------------------------------


class Smaller(AuxiliaryLoss):
    """The size of the trunk's output, weighed by a layer of its own."""

    def __init__(self) -> None:
        self.module = torch.nn.Linear(128, 1)

    def __call__(self, policy, seen, index) -> torch.Tensor:
        return self.module(policy.trunk(seen.stack.float() / 255)).square().mean()


@pytest.mark.parametrize("auxiliary", [None, lambda policy, rollout: Smaller()])
def test_saved_and_loaded_an_agent_learns_on_as_if_nothing_had_been(auxiliary):
    one = trained(agent(n_streams=2, auxiliary=auxiliary))
    state = {name: tensor.clone() for name, tensor in one.state_dict().items()}
    assert any(name.startswith("auxiliary.") for name in state) == (auxiliary is not None)
    two = agent(replace(WORLD, seed=2), n_streams=2, auxiliary=auxiliary)
    two.load_state_dict(state)
    two.generator.set_state(one.generator.get_state())
    assert different(two.state_dict(), one.state_dict()) == set()
    assert different(trained(two).state_dict(), trained(one).state_dict()) == set()


def test_the_weights_are_a_function_of_the_seed_and_touch_no_other_random_number():
    torch.manual_seed(8)
    before = torch.get_rng_state()
    one, two, other = agent(), agent(), agent(replace(WORLD, seed=2))
    assert torch.equal(before, torch.get_rng_state())
    assert different(weights(one), weights(two)) == set()
    assert "trunk.0.weight" in different(weights(one), weights(other))
