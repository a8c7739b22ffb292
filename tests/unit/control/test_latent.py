"""The algebra of accumulated control: Lemma 1, bounds, symmetries, and what happens at an end."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from megareward.control.config import FORMS, LatentConfig
from megareward.control.latent import (
    Accumulated,
    accumulate,
    accumulated_control,
    advance,
    chain,
    clear,
    latent_control,
    mega_reward,
)

T, N, HW = 5, 3, 24
AS_PRINTED = {"combine": "sum", "hold": False, "clip": False, "above_chance": False, "background": 1.0, "flash": 1.0}
"""Eq. 10 without any option."""


def random_attention(*shape: int, seed: int, sharpness: float = 1.0) -> Tensor:
    """Distributions over the last axis."""
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (sharpness * scores).softmax(-1)


def step(direct: Tensor, relation: Tensor, g: Tensor, config: LatentConfig, **given: Tensor | None) -> Accumulated:
    """One step inside an episode; nothing else is remembered than g, and nothing is a flash or background."""
    nothing = {"memory": g, "first": torch.zeros(len(g), dtype=torch.bool), "flash": None, "background": None}
    nothing["changed"] = torch.ones_like(g, dtype=torch.bool)
    return advance(g, direct=direct, passed_on=chain(relation, g), config=config, **{**nothing, **given})


def run(direct: Tensor, relation: Tensor, rho: float, **options: bool) -> Tensor:
    g, config = torch.zeros_like(direct[0]), LatentConfig(rho=rho, reward="difference", **{**AS_PRINTED, **options})
    for t in range(len(direct)):
        g = step(direct[t], relation[t], g, config).g
    return g


@settings(max_examples=100, deadline=None)
@given(
    steps=st.integers(1, 9),
    n_envs=st.integers(1, 3),
    n_cells=st.integers(1, 12),
    rho=st.floats(0, 1, exclude_max=True),
    sharpness=st.floats(0, 30),
    seed=st.integers(0, 10**6),
)
def test_lemma_1_the_recursion_equals_the_sum_over_all_past_actions(steps, n_envs, n_cells, rho, sharpness, seed):
    direct = random_attention(steps, n_envs, n_cells, seed=seed, sharpness=sharpness)
    relation = random_attention(steps, n_envs, n_cells, n_cells, seed=seed + 1, sharpness=sharpness)
    torch.testing.assert_close(
        run(direct, relation, rho), accumulated_control(direct, relation, rho), rtol=1e-12, atol=1e-12
    )


def test_without_options_a_step_is_equation_10_bit_for_bit():
    direct, relation = random_attention(N, HW, seed=0), random_attention(N, HW, HW, seed=1)
    g, config = random_attention(N, HW, seed=2), LatentConfig(rho=0.9, reward="difference", **AS_PRINTED)
    assert torch.equal(step(direct, relation, g, config).g, accumulate(direct, chain(relation, g), 0.9))


def test_equation_5_as_loops():
    relation, control = random_attention(N, HW, HW, seed=0), random_attention(N, HW, seed=1)
    result = chain(relation, control)
    for n in range(N):
        for to in range(HW):
            expected = sum(relation[n, to, source] * control[n, source] for source in range(HW))
            assert result[n, to].item() == pytest.approx(float(expected), rel=1e-12)


def test_the_last_action_controls_directly_and_an_older_one_through_the_relations_since():
    direct, relation = random_attention(T, N, HW, seed=0), random_attention(T, N, HW, HW, seed=1)
    assert torch.equal(latent_control(direct, relation, 1), direct[-1])
    expected = chain(relation[-1], chain(relation[-2], direct[-3]))
    assert torch.equal(latent_control(direct, relation, 3), expected)


def test_control_moves_from_paddle_to_ball_when_the_ball_relies_on_the_paddle():
    paddle, ball = 0, 1
    direct = torch.tensor([[1.0, 0.0, 0.0]])
    apart = torch.eye(3)[None]
    touching = apart.clone()
    touching[0, ball] = torch.tensor([1.0, 0.0, 0.0])
    g = accumulate(direct, chain(apart, torch.zeros(1, 3)), rho=0.9)
    assert g.tolist() == [[1.0, 0.0, 0.0]]
    g = accumulate(direct, chain(touching, g), rho=0.9)
    assert g[0, paddle].item() == pytest.approx(1.9)
    assert g[0, ball].item() == pytest.approx(0.9)


@given(rho=st.floats(0, 0.999), seed=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_g_never_exceeds_one_over_one_minus_rho(rho, seed):
    direct = random_attention(40, 2, 7, seed=seed, sharpness=30)
    relation = random_attention(40, 2, 7, 7, seed=seed + 1, sharpness=30)
    g = run(direct, relation, rho)
    assert (g >= 0).all()
    assert g.max().item() <= 1 / (1 - rho) + 1e-9


def test_g_comes_as_near_to_its_bound_as_one_likes_where_one_cell_has_it_all():
    direct = torch.zeros(2000, 1, 3, dtype=torch.float64)
    direct[..., 1] = 1
    relation = torch.zeros(2000, 1, 3, 3, dtype=torch.float64)
    relation[..., 1] = 1
    assert run(direct, relation, 0.99).max().item() == pytest.approx(100, rel=1e-6)


def test_renaming_the_cells_renames_g_and_leaves_the_reward_alone():
    direct, relation = random_attention(T, N, HW, seed=0), random_attention(T, N, HW, HW, seed=1)
    order = torch.randperm(HW, generator=torch.Generator().manual_seed(2))
    renamed = run(direct[..., order], relation[..., order, :][..., order], 0.9, hold=True)
    g = run(direct, relation, 0.9, hold=True)
    torch.testing.assert_close(renamed, g[..., order])
    zero = torch.zeros_like(g)
    torch.testing.assert_close(mega_reward(renamed, zero), mega_reward(g, zero))


def test_the_larger_counts_a_body_once_however_many_cells_it_lies_on():
    """Direct control is one in all. Added up and clipped, two cells that share it come to count one each; of the larger
    they keep a half each, so nothing is won by lying on a border."""
    on_one, on_two, itself = torch.eye(4)[:1], torch.tensor([[0.5, 0.5, 0, 0]]), torch.eye(4)[None]
    for combine, clip, expected in (("sum", True, [1, 2]), ("max", False, [1, 1])):
        options = {**AS_PRINTED, "combine": combine, "clip": clip}
        held = [run(direct.expand(9, 1, 4), itself.expand(9, 1, 4, 4), 0.9, **options) for direct in (on_one, on_two)]
        torch.testing.assert_close(torch.stack(held).sum(-1).flatten(), torch.tensor(expected).float())


def test_g_is_zero_after_an_end_in_that_environment_only():
    g = random_attention(N, HW, seed=0)
    cleared = clear(g, torch.tensor([False, True, False]))
    assert (cleared[1] == 0).all()
    assert torch.equal(cleared[[0, 2]], g[[0, 2]])


def test_the_rewards_of_equation_11_add_up_to_the_final_control():
    direct, relation = random_attention(T, N, HW, seed=0), random_attention(T, N, HW, HW, seed=1)
    g, total = torch.zeros(N, HW, dtype=torch.float64), torch.zeros(N, dtype=torch.float64)
    for t in range(T):
        g_new = accumulate(direct[t], chain(relation[t], g), 0.9)
        total += mega_reward(g_new, g)
        g = g_new
    torch.testing.assert_close(total, g.sum(-1))


def test_without_relations_equation_11_pays_the_same_whatever_the_agent_controls():
    """Why Dir needs a nonlinearity: with every cell on its own, the reward depends on the time only."""
    relation = torch.eye(HW, dtype=torch.float64).expand(N, HW, HW)
    g = torch.zeros(N, HW, dtype=torch.float64)
    for t in range(T):
        g_new = accumulate(random_attention(N, HW, seed=t, sharpness=9), chain(relation, g), 0.9)
        torch.testing.assert_close(mega_reward(g_new, g), torch.full((N,), 0.9**t, dtype=torch.float64))
        g = g_new


def test_the_released_form_holds_clips_and_pays_for_spreading():
    g_prev = torch.tensor([[0.8, 0.1, 0.5]])
    relation = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])  # 0 <- 1, 1 <- 0, 2 <- 2
    direct = torch.tensor([[0.3, 0.0, 0.7]])
    released = {**AS_PRINTED, "hold": True, "clip": True}
    paid = {"spread": 0.7, "positive": 0.3 + 0.45, "difference": -0.1 + 0.3 + 0.45}  # cell 1 rose from 0.1 to 0.8
    for form, reward in paid.items():
        after = step(direct, relation, g_prev, LatentConfig(rho=0.5, reward=form, **released))
        torch.testing.assert_close(after.g, torch.tensor([[0.7, 0.4, 0.95]]))  # half of 0.8, 0.8 and 0.5, and direct
        assert after.mega_reward.item() == pytest.approx(reward)
    assert step(direct, relation, g_prev, LatentConfig(rho=0.9, **released)).g[0, 0] == 1


@pytest.mark.parametrize("form", ["spread", "beyond", "moved"])
def test_rewards_made_of_what_was_passed_on_ask_for_it(form):
    with pytest.raises(ValueError, match=f"passed_on is None, but the form '{form}'"):
        mega_reward(torch.zeros(1, 2), torch.zeros(1, 2), form=form)


@pytest.mark.parametrize("form", ["beyond", "moved"])
def test_rewards_beyond_direct_control_ask_where_that_is(form):
    with pytest.raises(ValueError, match=f"beyond is None, but the form '{form}'"):
        mega_reward(torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2), form=form)


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_the_level_is_what_the_difference_with_its_loss_at_the_end_is_worth(discount):
    """Two rewards, one objective: their discounted sums differ by a factor and by what no action can change."""
    amount = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # sum of g, then the end
    powers = discount ** torch.arange(30, dtype=torch.float64)
    after = torch.cat([amount[1:], torch.zeros(1, dtype=torch.float64)])
    difference = (powers * (after - amount)).sum()
    level = (powers[:-1] * amount[1:]).sum()
    torch.testing.assert_close(difference, (1 - discount) * level - amount[0])


def step_as_loops(g_prev, memory, direct, passed_on, first, flash, background, changed, config):
    """`advance`, one environment and one cell at a time, from docs/paper.md."""
    g, remembered, rewards = torch.zeros_like(g_prev), torch.zeros_like(g_prev), torch.zeros(len(g_prev))
    for n in range(len(g_prev)):
        if first[n]:
            continue  # nothing is under control, nothing is remembered, nothing is paid
        for i in range(g_prev.shape[1]):
            had, given, passed = float(g_prev[n, i]), float(direct[n, i]), float(passed_on[n, i])
            beyond = given <= (0 if config.above_chance else 1 / g_prev.shape[1])
            if flash[n]:
                given, passed = 0.0, had
            if config.hold:
                passed = max(passed, had)
            if background[n, i]:
                passed *= config.background
            now = config.rho * passed + given if config.combine == "sum" else max(config.rho * passed, given)
            if config.clip:
                now = min(now, 1.0)
            g[n, i] = now
            remembered[n, i] = max(now, config.rho * float(memory[n, i]))
            rewards[n] += {
                "difference": now - had,
                "positive": max(now - had, 0.0),
                "record": max(now - float(memory[n, i]), 0.0),
                "spread": max(passed - float(memory[n, i]), 0.0),
                "level": now,
                "beyond": passed * beyond,
                "moved": passed * (beyond and bool(changed[n, i]) and not bool(flash[n])),
            }[config.reward]
    return g, remembered, rewards


@pytest.mark.parametrize("above_chance", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("combine", ["sum", "max"])
def test_a_step_with_all_options_as_loops(combine, hold, clip, form, above_chance):
    generator = torch.Generator().manual_seed(0)
    g_prev, memory, direct, passed_on = torch.rand(4, 40, HW, generator=generator)
    direct = (direct - 0.5).clamp(min=0) if above_chance else direct / 5
    first, flash = (torch.rand(40, generator=generator) < 0.3 for _ in range(2))
    background = torch.rand(40, HW, generator=generator) < 0.5
    changed = torch.rand(40, HW, generator=generator) < 0.4
    options = {"combine": combine, "hold": hold, "clip": clip, "above_chance": above_chance, "reward": form}
    config = LatentConfig(rho=0.9, background=0.25, **options)
    given = (g_prev, memory, direct, passed_on, first, flash, background, changed)
    for found, expected in zip(advance(*given, config), step_as_loops(*given, config), strict=True):
        torch.testing.assert_close(found, expected)
