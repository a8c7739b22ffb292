"""Scores against answers by hand."""

import math

import pytest
import torch

from megareward.audit.learnt import LearntMaps
from megareward.audit.scores import auroc, calibration, estimate, remembered, score, spearman
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
        maps = [LearntMaps(sign * e.direct.float(), own.relation, sign * e.g(0.9), own.mega_reward) for e, own in cases]
        scores = score(truth, maps, rho=0.9, clip=False)
        assert scores.direct_auroc.mean == full
        assert scores.g_auroc.mean in (full, None)  # None where every cell is controlled by something
        assert scores.g_spearman.mean == pytest.approx(sign)
        assert len(scores.lag_auroc) == L
    assert scores.as_dict()["lag_auroc"][0].keys() == {"mean", "low", "high", "frames"}


def test_what_only_the_alternative_would_show_cannot_be_seen():
    """Cell 0 shows something in frames 2 and 3, cell 5 never; both are controlled in frames 2 to 5."""
    T = 6
    frames = torch.zeros(T + 1, 8, 9, dtype=torch.uint8)  # 2 x 3 cells of 4 x 3 pixels
    frames[2:4, 1, 1] = 200
    changed = torch.zeros(T + 1, L, HW, dtype=torch.uint8)
    changed[2:6, 0, 0] = changed[2:6, 0, 5] = 1
    episode = AuditedEpisode(frames, torch.zeros(T, dtype=torch.int64), changed)
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [episode])
    assert [cells.nonzero().tolist() for cells in truth.visible()] == [[[2, 0], [3, 0]]]
    nothing = LearntMaps(*(torch.zeros(T + 1, *shape) for shape in ((HW,), (HW, HW), (HW,), ())))
    scores = score(truth, [nothing], rho=0.9, clip=True)
    assert scores.hidden == pytest.approx(6 / 8)
    assert scores.seen_auroc.frames == 4
    assert scores.seen_auroc.mean == pytest.approx((1 + 1 / 2) / 2)  # cell 0 above the others, also from memory
    assert torch.allclose(
        remembered(episode.direct & truth.visible()[0], 0.9)[:, 0][2:6], 0.9 ** torch.tensor([0.0, 0, 1, 2])
    )
