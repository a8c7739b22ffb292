"""What the policy sees beside the frames: recorded fields as channels, as numbers and as a skill."""

import pytest
import torch

from megareward.nets import trunk_units
from megareward.ppo.config import PolicyConfig
from megareward.ppo.policy import InputSizes, Policy, PolicyInputs
from megareward.rollout import Field, Rollout
from megareward.world import World

T, N, A, S, K, STACK = 5, 3, 7, 2, 4, 3
H, W, SHAPE = 2, 3, (32, 36)
UNITS = trunk_units(SHAPE)
WORLD = World(N, A, SHAPE, torch.device("cpu"), seed=1)
FIELDS = (
    Field("map", (H * W,), picture=(H, W), scale=0.5),
    Field("other_map", (H * W,), picture=(H, W)),
    Field("numbers", (2, 5)),
    Field("angles", (4,)),
    Field("number"),
    Field("skill", dtype=torch.int64),
)
INDEX = torch.tensor([0, 7, 2, 17])
"""Four samples t * N + n, of the last frame too."""


def rollout(seed: int = 0) -> Rollout:
    """Random frames and fields, of which one episode is as old as a stack."""
    random = torch.Generator().manual_seed(seed)
    made = Rollout(T, WORLD, STACK, fields=FIELDS, n_streams=S)
    made.all_frames.copy_(torch.randint(256, made.all_frames.shape, dtype=torch.uint8, generator=random))
    made.age.fill_(STACK - 1)
    for name, values in made.fields.items():
        drawn = torch.rand(values.shape, generator=random)
        values.copy_((K * drawn).long() if name == "skill" else drawn)
    return made


def policy(inputs: PolicyInputs, made: Rollout) -> Policy:
    torch.manual_seed(2)
    return Policy(SHAPE, A, S, PolicyConfig(stack=STACK), inputs.sizes(made.declared))


def changed(made: Rollout, name: str, t: int, n: int) -> Rollout:
    """The same, except for one field of one sample."""
    values = made.fields[name]
    values[t, n] = (values[t, n] + 1) % K if name == "skill" else values[t, n] + 1
    return made


SEEN = {
    "a channel": (PolicyInputs(channels=("map", "other_map")), "other_map", InputSizes(channels=2)),
    "a vector": (PolicyInputs(vectors=("numbers", "angles")), "numbers", InputSizes(vector=14)),
    "a skill": (PolicyInputs(skill="skill", n_skills=K), "skill", InputSizes(skills=K)),
    "all of them": (PolicyInputs(("map",), ("angles",), "skill", K), "map", InputSizes(1, 4, K)),
}
each_way = pytest.mark.parametrize(("inputs", "name", "sizes"), SEEN.values(), ids=SEEN)


@each_way
def test_logits_and_values_have_one_row_per_sample(inputs, name, sizes):
    made = rollout()
    assert inputs.sizes(made.declared) == sizes
    logits, values = policy(inputs, made)(*inputs.observe(made, INDEX))
    assert logits.shape == (len(INDEX), A)
    assert values.shape == (len(INDEX), S)


@each_way
def test_logits_and_values_of_a_sample_depend_on_its_own_field_and_on_no_others(inputs, name, sizes):
    net = policy(inputs, rollout())
    before = net(*inputs.observe(rollout(), INDEX))
    after = net(*inputs.observe(changed(rollout(), name, 2, 1), INDEX))  # sample 7
    for one, two in zip(before, after, strict=True):
        assert (one != two).any(-1).tolist() == [False, True, False, False]


@each_way
def test_fields_that_the_policy_does_not_see_do_not_matter(inputs, name, sizes):
    unseen = {field.name for field in FIELDS} - {*inputs.channels, *inputs.vectors, inputs.skill}
    made, other = rollout(), rollout()
    for field in unseen:
        changed(other, field, 2, 1)
    net = policy(inputs, made)
    for one, two in zip(net(*inputs.observe(made, INDEX)), net(*inputs.observe(other, INDEX)), strict=True):
        assert torch.equal(one, two)


def test_a_channel_is_the_map_painted_over_the_frame_in_its_scale():
    made = rollout()
    seen = PolicyInputs(channels=("map", "other_map")).observe(made, INDEX)
    assert seen.stack.shape == (len(INDEX), STACK, *SHAPE)
    assert seen.channels.shape == (len(INDEX), 2, *SHAPE)
    assert seen.vector is None
    assert seen.skill is None
    cells = made.fields["map"][2, 1].view(H, W)
    for h in range(SHAPE[0]):
        for w in range(SHAPE[1]):
            assert seen.channels[1, 0, h, w] == 0.5 * cells[h * H // SHAPE[0], w * W // SHAPE[1]]
    corners = seen.channels[1, 1, :: SHAPE[0] // H, :: SHAPE[1] // W]  # of the cells
    assert torch.equal(corners.flatten(), made.fields["other_map"][2, 1])


def test_a_vector_is_all_numbers_of_its_fields_in_their_order():
    made = rollout()
    seen = PolicyInputs(vectors=("numbers", "angles")).observe(made, INDEX)
    assert seen.vector.shape == (len(INDEX), 14)
    assert torch.equal(seen.vector[1, :10], made.fields["numbers"][2, 1].flatten())
    assert torch.equal(seen.vector[1, 10:], made.fields["angles"][2, 1])


def test_a_single_number_is_a_vector_too():
    made, inputs = rollout(), PolicyInputs(vectors=("number",))
    assert inputs.sizes(made.declared) == InputSizes(vector=1)
    assert torch.equal(inputs.observe(made, INDEX).vector[:, 0], made.fields["number"].flatten()[INDEX])


def test_a_policy_that_sees_no_field_is_the_plain_one():
    made, plain = rollout(), PolicyInputs()
    assert plain.sizes(made.declared) == InputSizes()
    torch.manual_seed(2)
    net = Policy(SHAPE, A, S, PolicyConfig(stack=STACK))
    for one, two in zip(net.parameters(), policy(plain, made).parameters(), strict=True):
        assert torch.equal(one, two)
    assert plain.observe(made, INDEX)[1:] == (None, None, None)


def test_a_field_that_nobody_records_is_refused_by_name():
    with pytest.raises(ValueError, match="The policy sees 'goal', but observers record only map, other_map, numbers"):
        PolicyInputs(channels=("map",), vectors=("goal",)).sizes(rollout().declared)


def test_what_is_no_map_is_no_channel():
    with pytest.raises(ValueError, match="'angles' is no map over the frame"):
        PolicyInputs(channels=("angles",)).observe(rollout(), INDEX)


# Skills --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [(), ("numbers",)])
def test_only_the_block_of_the_own_skill_matters(vectors):
    made, inputs = rollout(), PolicyInputs(vectors=vectors, skill="skill", n_skills=K)
    net, seen = policy(inputs, made), inputs.observe(made, INDEX)
    units = UNITS + 10 * len(vectors)
    assert net.action_head.in_features == net.value_head.in_features == K * units
    before = net(*seen)
    for k in range(K):
        other = policy(inputs, made)
        with torch.no_grad():
            for head in (other.action_head, other.value_head):
                head.weight[:, k * units : (k + 1) * units] += 1.0
        for one, two in zip(before, other(*seen), strict=True):
            assert torch.equal((one != two).any(-1), seen.skill == k)
    assert len(seen.skill.unique()) > 1


def test_a_sample_teaches_only_the_block_of_its_skill():
    made, inputs = rollout(), PolicyInputs(skill="skill", n_skills=K)
    made.fields["skill"].fill_(2)
    net = policy(inputs, made)
    logits, values = net(*inputs.observe(made, INDEX))
    (logits.sum() + values.sum()).backward()
    for head in (net.action_head, net.value_head):
        blocks = head.weight.grad.view(-1, K, UNITS).abs().sum((0, 2))
        assert (blocks > 0).tolist() == [False, False, True, False]
    assert all(p.grad.any() for p in net.trunk.parameters())


def test_with_one_skill_the_policy_is_the_one_without():
    made, inputs = rollout(), PolicyInputs(skill="skill", n_skills=1)
    made.fields["skill"].zero_()
    plain = PolicyInputs()
    one = policy(inputs, made)(*inputs.observe(made, INDEX))
    two = policy(plain, made)(*plain.observe(made, INDEX))
    for a, b in zip(one, two, strict=True):
        assert torch.equal(a, b)
