"""What maps score that know nothing, and what they could score at most."""

from dataclasses import replace

import pytest
import torch

from megareward.audit.controls import MIRRORS, controls, fresh, hidden, known, mirror_images, seen_maps
from megareward.audit.learnt import learnt_maps
from megareward.audit.outside import untrained
from megareward.audit.record import Plan, find_truth
from megareward.audit.scores import score
from megareward.audit.truth import AuditedEpisode, Truth
from megareward.control.config import ControlConfig, mini, paper, released
from megareward.control.models import ControlModels
from megareward.envs.mini import mini_config
from megareward.training.config import TrainConfig

SHOWN_LAGS = (2, 4, 8, 16)
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["mini-pong", "mini-breakout", "mini-demon"])
def judged(request, tmp_path_factory):
    """A mini game with something in it that moves by itself, and the controls of the default models."""
    env = mini_config(request.param, distractor=True)
    plan = Plan(episodes=8, frames=150, lags=16)
    truth, _ = find_truth(TrainConfig("mega", request.param, env=env), plan, tmp_path_factory.mktemp("truth"))
    models = untrained(truth, CPU)
    return truth, models, controls(models, truth)


def test_untrained_models_are_at_chance_over_movers(judged):
    _, _, rows = judged
    found = rows["untrained"]["movers_auroc"]
    assert found.frames >= 100
    assert found.mean == pytest.approx(0.5, abs=0.03)
    assert found.low < 0.5 < found.high  # one of the four alone may be lucky
    assert rows["untrained"]["relation_auroc"].mean == pytest.approx(0.5, abs=0.03)
    assert rows["untrained"]["direct_auroc"].mean == pytest.approx(0.5, abs=0.03)
    for n in SHOWN_LAGS:
        found = rows["untrained"]["movers_lag_auroc"][n - 1]
        assert found.frames < 100 or found.mean == pytest.approx(0.5, abs=0.03), n


@pytest.mark.parametrize("preset", [paper, released])
def test_untrained_models_of_paper_and_released_code_are_at_chance_everywhere(preset, tmp_path):
    """Their rules give nothing away, whereas ours do: the difference in g is not learnt."""
    truth, _ = find_truth(TrainConfig("mega", "mini-demon"), Plan(episodes=6, frames=150, lags=4), tmp_path)
    models = ControlModels(preset(mini(ControlConfig())), truth.frame_shape, len(truth.action_names))
    models.normaliser.observe(torch.cat([episode.frames for episode in truth.episodes]))
    rows = controls(models, truth)
    for name in ("direct_auroc", "g_auroc", "movers_auroc", "kept_movers_auroc", "relation_auroc"):
        assert rows["untrained"][name].mean == pytest.approx(0.5, abs=0.03), name
        assert rows["uniform"][name].mean == 0.5, name


def test_untrained_models_whose_cells_tell_nothing_are_at_chance_exactly(judged):
    """Their guesses differ a little where something is to be seen; g counts nothing of that."""
    truth, models, _ = judged
    config, latent = models.config, replace(models.config.latent, hold=False, clip=False, combine="max")
    told = replace(config.adm, direct="information")
    own = fresh(models, replace(config, adm=told, latent=latent, rtm=replace(config.rtm, model="local")), (1.0, 1.0))
    rows = controls(own, truth)
    for name in ("g_auroc", "movers_auroc", "kept_movers_auroc"):
        assert rows["untrained"][name][:3] == (0.5, 0.5, 0.5), name
    for name in ("direct_auroc", "shown_direct_auroc"):
        assert rows["untrained"][name].mean == pytest.approx(0.5, abs=0.05), name
    assert rows["uniform"]["movers_auroc"][:3] == (0.5, 0.5, 0.5)


def test_rules_without_a_model_are_at_chance_over_movers_exactly_and_not_elsewhere(judged):
    _, _, rows = judged
    assert rows["uniform"]["movers_auroc"][:3] == (0.5, 0.5, 0.5)
    assert {found.mean for found in rows["uniform"]["movers_lag_auroc"]} <= {0.5, None}
    assert rows["uniform"]["relation_auroc"].mean == 0.5
    assert rows["uniform"]["g_auroc"].mean > 0.6  # this is why movers are asked about
    assert abs(rows["uniform"]["kept_movers_auroc"].mean - 0.5) > 0.03


def test_no_action_controls_a_mover_at_lag_1(judged):
    truth, _, rows = judged
    assert not any((movers & e.direct).any() for movers, e in zip(truth.movers(), truth.episodes, strict=True))
    assert rows["seen"]["movers_lag_auroc"][0].mean is None


def test_what_can_be_seen_is_far_above_what_untrained_models_score(judged):
    _, _, rows = judged
    for name in ("direct_auroc", "g_auroc", "movers_auroc", "relation_auroc"):
        assert rows["seen"][name].mean > rows["untrained"][name].mean + 0.1, name
    assert rows["seen"]["direct_auroc"].mean > 0.97
    assert rows["seen"]["movers_auroc"].mean > 0.9


def test_mirror_images_order_all_cells_the_other_way_round(tmp_path):
    truth, _ = find_truth(TrainConfig("mega", "mini-demon"), Plan(episodes=3, frames=40, lags=6), tmp_path)
    models = untrained(truth, CPU)
    found = mirror_images(models, truth)
    for signs, maps in zip(MIRRORS, found, strict=True):  # each is what its own model would say
        for own, wanted in zip(maps, learnt_maps(fresh(models, models.config, signs), truth), strict=True):
            assert all(torch.equal(value, vars(wanted)[name]) for name, value in vars(own).items())
    drawn, of_lambda, of_gamma, _ = (score(truth, [own.to_score(truth.lags) for own in maps], 0.99) for maps in found)
    for mirrored, name in ((of_lambda, "direct_auroc"), (of_gamma, "relation_auroc")):
        assert abs(drawn[name].mean - 0.5) > 0.001  # one draw may be lucky
        assert drawn[name].mean + mirrored[name].mean == pytest.approx(1, abs=1e-3)  # but for rounding


def test_fresh_models_keep_rules_and_statistics_and_nothing_that_was_learnt(judged):
    _, models, _ = judged
    own = fresh(models, models.config, (1.0, 1.0), seed=5)
    assert torch.equal(own.normaliser.mean, models.normaliser.mean)
    assert torch.equal(own.background.frame, models.background.frame)
    assert own.background.known
    assert not torch.equal(own.adm.lambda_.head[-1].weight, models.adm.lambda_.head[-1].weight)
    literal = replace(models.config, latent=replace(models.config.latent, hold=False))
    assert not fresh(models, literal, (0.0, 0.0)).config.latent.hold


def test_of_what_shows_nothing_only_its_frequency_is_known():
    true = [torch.tensor([[1, 1, 0], [0, 1, 0]]).bool(), torch.tensor([[0, 1, 0]]).bool()]
    shows = [torch.tensor([[0, 1, 1], [0, 0, 1]]).bool(), torch.tensor([[1, 0, 1]]).bool()]
    first, second = known(true, shows)
    assert first.tolist() == [[0.5, 1, 0], [0.5, 1, 0]]
    assert second.tolist() == [[0, 1, 0]]


def test_what_only_the_alternative_would_show_cannot_be_seen():
    """Cell 0 shows something in frames 2 and 3, cell 5 never; both are controlled in frames 2 to 5."""
    T, H, W, L = 6, 2, 3, 4
    frames = torch.zeros(T + 1, 8, 9, dtype=torch.uint8)  # 2 x 3 cells of 4 x 3 pixels
    frames[2:4, 1, 1] = 200
    changed = torch.zeros(T + 1, L, H * W, dtype=torch.uint8)
    changed[2:6, 0, 0] = changed[2:6, 0, 5] = 1
    truth = Truth({"grid": [H, W], "lags": L}, ("a", "b"), [AuditedEpisode(frames, torch.zeros(T).long(), changed)])
    assert [cells.nonzero().tolist() for cells in truth.visible()] == [[[2, 0], [3, 0]]]
    assert hidden(truth) == pytest.approx(6 / 8)
    [maps] = seen_maps(truth)
    assert maps.direct[2, 0] == 1
    assert maps.direct[4, 0] == pytest.approx(2 / 5)  # controlled in two of the five frames in which it shows nothing
    assert maps.direct[2, 5] == pytest.approx(4 / 7)
