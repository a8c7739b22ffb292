"""Scores against answers by hand."""

import math

import pytest
import torch

from megareward.audit.learnt import LearntMaps
from megareward.audit.maps import Maps
from megareward.audit.scores import (
    as_dict,
    auroc,
    calibration,
    compared,
    estimate,
    estimates,
    handed_to_movers,
    score,
    spearman,
)
from megareward.audit.truth import AuditedEpisode, Truth
from megareward.control.latent import latent_control

H, W, L = 2, 3, 4
HW = H * W


def test_auroc_counts_pairs_and_halves_ties():
    learnt = torch.tensor([[0.9, 0.5, 0.5, 0.1], [0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.3, 0.3], [1.0, 0.0, 0.0, 0.0]])
    true = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]]).bool()
    values = auroc(learnt, true)
    assert values[:3].tolist() == [3.5 / 4, 0.0, 0.5]
    assert math.isnan(values[3])


def test_auroc_among_some_cells_knows_nothing_of_the_others():
    learnt = torch.tensor([[0.9, 0.5, 0.7, 0.1], [0.9, 0.5, 0.7, 0.1]])
    true = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0]]).bool()
    among = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]]).bool()
    values = auroc(learnt, true, among)
    assert values[0] == 0.5  # 0.5 against 0.7 and 0.1
    assert math.isnan(values[1])
    by_lag = auroc(learnt[:, None].expand(2, 3, 4), true[:, None].expand(2, 3, 4), among[:, None])
    assert by_lag[0].tolist() == [0.5] * 3


def test_spearman_is_the_correlation_of_ranks():
    true = torch.tensor([[1.0, 2.0, 3.0, 10.0], [4.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 2.0, 2.0]])
    learnt = torch.tensor([[0.1, 0.4, 0.5, 0.6], [0.1, 0.2, 0.3, 0.9], [0.1, 0.2, 0.3, 0.9], [0.5, 0.5, 0.5, 0.5]])
    values = spearman(learnt, true)
    assert values[:2].tolist() == pytest.approx([1.0, -1.0])
    assert math.isnan(values[2])
    assert values[3] == 0
    ranks, others = torch.tensor([1.5, 1.5, 3.0, 4.0]), torch.tensor([2.0, 4.0, 1.0, 3.0])
    expected = torch.corrcoef(torch.stack([ranks, others]))[0, 1].item()
    found = spearman(torch.tensor([[5.0, 5.0, 6.0, 7.0]]), torch.tensor([[2.0, 4.0, 1.0, 3.0]]))
    assert found.item() == pytest.approx(expected)


def test_an_estimate_is_the_mean_over_frames_and_its_interval_is_over_episodes():
    nan = float("nan")
    one = estimate([torch.tensor([1.0, 0.0, nan])])
    assert (one.mean, one.low, one.high, one.frames) == (0.5, None, None, 2)
    alike = estimate([torch.tensor([0.25, 0.75])] * 5)  # frames differ, episodes do not
    assert (alike.mean, alike.low, alike.high) == (0.5, 0.5, 0.5)
    unlike = estimate([torch.full((4,), value) for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)])
    assert unlike.mean == pytest.approx(0.5)
    assert 0.1 < unlike.low < 0.35
    assert 0.65 < unlike.high < 0.9
    assert estimate([torch.tensor([nan])]).mean is None


def test_calibration_compares_what_was_said_with_how_often_it_was_so():
    learnt = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.95, 0.95, 0.95, 0.95]])
    true = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0]]).bool()
    found = calibration(learnt, true)
    assert [row["cells"] for row in found["bins"]] == [4, 4]
    assert [row["controlled"] for row in found["bins"]] == [0.25, 0.5]
    assert found["error"] == pytest.approx((0 + 0.45) / 2)


def random_case(seed, T=7):
    generator = torch.Generator().manual_seed(seed)
    direct = torch.rand(T + 1, HW, generator=generator).softmax(-1)
    relation = torch.rand(T + 1, HW, HW, generator=generator).softmax(-1)
    direct[0], relation[0] = 0, 0
    maps = LearntMaps(direct, relation, torch.rand(T + 1, HW, generator=generator), torch.zeros(T + 1))
    changed = torch.randint(0, 3, (T + 1, L, HW), generator=generator, dtype=torch.uint8)
    for n in range(1, L + 1):
        changed[:n, n - 1] = 0
    episode = AuditedEpisode(torch.zeros(T + 1, 8, 9, dtype=torch.uint8), torch.zeros(T, dtype=torch.int64), changed)
    return episode, maps


def test_learnt_influence_is_equation_5_applied_once_for_each_step_since():
    _, maps = random_case(1)
    T = len(maps.direct) - 1
    chained = maps.influence(L)
    for t in range(1, T + 1):
        for n in range(1, min(t, L) + 1):
            expected = latent_control(maps.direct[1 : t + 1, None], maps.relation[1 : t + 1, None], n)[0]
            assert torch.allclose(chained[t, n - 1], expected, atol=1e-6)
    assert not chained[1, 1].any()  # no action lies two steps before frame 1


def test_the_truth_scores_full_marks_against_itself_and_its_opposite_none():
    cases = [random_case(seed) for seed in (2, 3)]
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b", "c"), [episode for episode, _ in cases])
    for sign, full in ((1.0, 1.0), (-1.0, 0.0)):
        maps = [
            Maps(sign * e.direct.float(), sign * e.g(0.9), None, sign * e.influence.float(), sign * e.sources.float())
            for e, _ in cases
        ]
        scores = score(truth, maps, rho=0.9)
        assert scores["direct_auroc"].mean == full
        assert scores["shown_direct_auroc"].mean is None  # its frames are blank: nothing is shown
        assert scores["g_auroc"].mean in (full, None)  # None where every cell is controlled by something
        assert scores["g_spearman"].mean == pytest.approx(sign)
        assert [lag.mean for lag in scores["lag_auroc"]] == [full] * L
    assert as_dict(scores)["lag_auroc"][0].keys() == {"mean", "low", "high", "frames"}
    assert "movers_auroc" not in scores  # nothing was said about what is handed on


def moving_case():
    """2 x 3 cells of 2 x 2 pixels. Something that the action of step 1 controls goes from cell 0 to 1 to 2; something
    else goes from cell 3 to 4 to 5 by itself. Frame 4 is a flash."""
    frames = torch.zeros(5, 2 * H, 2 * W, dtype=torch.uint8)
    for t in (1, 2, 3):
        frames[t, [0, 2], 2 * (t - 1)] = 200
    frames[4] = 255
    changed = torch.zeros(5, L, HW, dtype=torch.uint8)
    for t in (1, 2, 3):
        changed[t, t - 1, t - 1] = 1
    return AuditedEpisode(frames, torch.zeros(4, dtype=torch.int64), changed)


def test_direct_control_among_what_is_shown_asks_about_no_other_cell():
    """Cells 1 and 2 show something in frames 1 and 2, and the action controls 1 and 4: that 4 is missed, and that 5 is
    held for controlled, does not matter here; that 2 is put before 1 does."""
    frames = torch.zeros(6, 2 * H, 2 * W, dtype=torch.uint8)
    frames[1:3, 0, 2] = frames[1:3, 0, 4] = 200
    changed = torch.zeros(6, L, HW, dtype=torch.uint8)
    changed[1:3, 0, 1] = changed[1:3, 0, 4] = 1
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [AuditedEpisode(frames, torch.zeros(5).long(), changed)])
    direct = torch.zeros(6, HW)
    direct[1:, 5], direct[1, 1], direct[2, 2] = 1.0, 0.5, 0.5
    found = score(truth, [Maps(direct)], rho=0.9)
    assert found["shown_direct_auroc"][::3] == (0.5, 2)  # right in frame 1, wrong in frame 2
    assert found["direct_auroc"].mean == pytest.approx((4.5 + 2) / 16)


def test_control_handed_to_movers_is_true_as_far_as_they_are_under_control():
    """Movers of frames 1, 2 and 3: 3; 0, 1, 3, 4; and 1, 2, 4, 5. Under control are 1 in frame 2 and 2 in frame 3."""
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [moving_case()])
    even = torch.full((5, HW), 0.3)
    assert handed_to_movers(truth, [even]) == pytest.approx({"true": 2 / 9, "chance": 2 / 9})
    partly = torch.zeros(5, HW)
    partly[2, 1], partly[3, 4], partly[4], partly[2, 2] = 0.6, 0.2, 9.0, 9.0  # the last two are no movers
    assert handed_to_movers(truth, [partly])["true"] == pytest.approx(0.75)
    assert handed_to_movers(truth, [torch.zeros(5, HW)])["true"] is None


def test_movers_are_cells_that_changed_and_are_not_directly_controlled():
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [moving_case()])
    [movers] = truth.movers()
    found = [cells.nonzero().flatten().tolist() for cells in movers]
    assert found == [[], [3], [0, 1, 3, 4], [1, 2, 4, 5], []]


def test_a_cell_has_its_control_from_where_the_same_action_had_it():
    sources = moving_case().sources
    assert sources.nonzero().tolist() == [[2, 1, 0], [3, 2, 1]]


def test_over_movers_counts_what_was_handed_on_and_where_from():
    episode = moving_case()
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [episode])
    relation = torch.full((5, HW, HW), 1 / HW)
    relation[2, 1] = relation[3, 2] = 0
    relation[2, 1, 0] = relation[3, 2, 1] = 1  # the first thing is followed, the second is not
    g = torch.zeros(5, HW)
    g[1, 0] = g[2, 1] = 1
    maps = LearntMaps(torch.full((5, HW), 1 / HW), relation, g, torch.zeros(5)).to_score(L)
    scores = score(truth, [maps], rho=0.99)
    assert (scores["movers_auroc"].mean, scores["movers_auroc"].frames) == (1.0, 2)
    assert scores["relation_auroc"].mean == 1.0
    uniform = LearntMaps(maps.direct, torch.full((5, HW, HW), 1 / HW), g, torch.zeros(5)).to_score(L)
    scores = score(truth, [uniform], rho=0.99)
    assert (scores["movers_auroc"].mean, scores["relation_auroc"].mean) == (0.5, 0.5)
    assert scores["kept_movers_auroc"].mean != 0.5  # what a cell kept is not what it was handed
    both = estimates([compared(truth, [own], rho=0.99) for own in (maps, uniform)])
    assert both["movers_auroc"].mean == 0.75
