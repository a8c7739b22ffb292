"""Things in place of cells: the seams of a run whose control is carried by things."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import megareward
from megareward.audit.run_audit import audit_run, save_audit
from megareward.control.config import ControlConfig, ThingsConfig
from megareward.control.latent import mega_reward
from megareward.errors import UsageError
from megareward.observers.things import PARTS_OF_A_SCREEN, ThingTracker
from megareward.things.models import ThingAttention, ThingModels
from megareward.training.config import TrainConfig
from megareward.training.presets import with_preset
from megareward.training.run import create, resume
from megareward.viewer.audited import record_audit
from tests.seams.small_runs import (
    ITERATIONS,
    QUIET,
    TINY_CONTROL,
    Outcome,
    PowerCutError,
    Watched,
    assert_same,
    env_of,
    run,
    small,
    stop_at,
    whole,
)
from tests.seams.test_fast_and_plain import fast_collector
from tests.seams.test_flip import assert_nothing_but_the_score_changed

CONTROL = replace(
    TINY_CONTROL,
    rtm=replace(TINY_CONTROL.rtm, stack=3, local_features=4),
    latent=replace(TINY_CONTROL.latent, above_chance=True),
    things=ThingsConfig(5),
)


def config(**changes: object) -> TrainConfig:
    return small("mega", control=replace(CONTROL, **changes))  # type: ignore[arg-type]


def test_a_run_that_is_cut_off_again_and_again_ends_as_if_it_had_not_been(tmp_path):
    path, own = tmp_path / "run", config()
    uninterrupted, _ = whole(own)
    assert any("guesses" in name for name in uninterrupted.weights)
    create(own, path)
    for iteration in range(ITERATIONS):
        with pytest.raises(PowerCutError):
            resume(path, env=Watched(env_of(own), stop_at(3 * iteration, "power cut")), **QUIET)
        resume(path, minutes=1e-9, **QUIET)
    assert_same(uninterrupted, Outcome.of(path))


def test_flipping_the_games_score_changes_nothing(tmp_path):
    assert_nothing_but_the_score_changed(config(), tmp_path)


def test_the_fast_collector_and_the_plain_one_give_the_same_run(tmp_path, monkeypatch):
    own = config()
    plain, _ = whole(own)
    monkeypatch.setattr("megareward.training.loop.make_collector", fast_collector)
    assert_same(plain, run(own, tmp_path / "fast")[0])


def test_how_fine_the_grid_is_changes_nothing_that_is_learnt():
    """So no thing is too large or too small beside the cells; they are for showing only."""
    coarse, fine = (whole(config(H=cells, W=cells))[0].weights for cells in (2, 8))
    assert coarse.keys() == fine.keys()
    assert all(torch.equal(coarse[name], fine[name]) for name in coarse)


@pytest.mark.parametrize("form", ["moved", "difference"])
def test_nor_what_is_paid(form):
    direct, everything = torch.zeros(2, N, S)
    direct[:, 0], everything[:, :3] = 1, 1
    itself, a, b = torch.eye(S).expand(N, S, S), patches((1, 1), (5, 9)), patches((2, 1), (5, 8))
    paid = []
    for cells in (2, 8):
        own = tracker(cells, reward=form)
        paid.append([step(own, told, itself, a, now).mega_reward for told, now in ((everything, a), (direct, b))])
    assert all(torch.equal(one, other) for one, other in zip(*paid, strict=True))
    assert any(reward.any() for reward in paid[0])


def test_the_preset_is_what_moves_by_things():
    own = with_preset(TrainConfig("mega", "mini-pong"), "auto,things")
    assert own.control.things.slots > 0
    assert (own.control.latent.reward, own.control.rtm.stack) == ("moved", 3)
    assert own.overlaps_on("cuda") is False


def test_an_audit_scores_things_and_an_untrained_row_is_at_chance_exactly(tmp_path):
    create(config(), tmp_path / "run")
    resume(tmp_path / "run", **QUIET)
    record = audit_run(tmp_path / "run", episodes=2, frames=20, lags=4, device=torch.device("cpu"))
    assert record["scores"]["direct_auroc"]["mean"] is not None
    names = ("direct_auroc", "shown_direct_auroc", "g_auroc", "movers_auroc")
    untrained = [record["controls"]["untrained"][name] for name in names if name in record["controls"]["untrained"]]
    found = [one["mean"] if isinstance(one, dict) else one for one in untrained]
    assert set(found) <= {0.5, None}
    assert 0.5 in found
    save_audit(record, tmp_path / "run")
    recording = record_audit(tmp_path / "run", "random", device=torch.device("cpu"))
    assert recording.learnt is not None
    assert recording.learnt.relation is None
    assert recording.learnt.g.shape == recording.truth.g.shape


def test_beside_other_code_there_are_cells_only():
    space = __import__("gymnasium").spaces
    with pytest.raises(UsageError, match="things"):
        megareward.make(
            "mega",
            observation_space=space.Box(0, 255, (32, 32), np.uint8),
            action_space=space.Discrete(3),
            n_envs=2,
            control=CONTROL,
        )


# The tracker ---------------------------------------------------------------------------------------------------------

N, S, SIDE = 2, 5, 16


def tracker(cells: int = 2, **latent: object) -> ThingTracker:
    rules = replace(ControlConfig().latent, above_chance=True, **latent)  # type: ignore[arg-type]
    return ThingTracker(ThingModels(replace(CONTROL, H=cells, W=cells, latent=rules), (SIDE, SIDE), 3), N)


def patches(*corners: tuple[int, int]) -> torch.Tensor:
    """(N, S, SIDE, SIDE): things of 2 x 2 pixels at these corners, the same in all environments."""
    own = torch.zeros(N, S, SIDE, SIDE, dtype=torch.bool)
    for slot, (y, x) in enumerate(corners):
        own[:, slot, y : y + 2, x : x + 2] = True
    return own


def step(own: ThingTracker, direct, relation, before, now, *, first=False, level=0, goes_on=True):
    attention = ThingAttention(direct, relation, (before ^ now).any((-2, -1)), before, now, now.any((-2, -1)) & goes_on)
    stack = torch.full((N, 3, SIDE, SIDE), level, dtype=torch.uint8)
    stack[:, -1] = torch.where(now.any(1), 200, level)
    return own.follow(attention, stack, torch.full((N,), first), torch.arange(N))


def test_control_goes_where_its_thing_goes_and_the_rest_is_equation_10_and_11():
    own, nothing = tracker(), torch.zeros(N, S)
    a, b, c = patches((1, 1), (5, 9)), patches((2, 2), (5, 8)), patches((3, 3), (5, 7))
    direct = nothing.clone()
    direct[:, 0] = 0.8
    itself = torch.eye(S).expand(N, S, S)
    control = step(own, direct, itself, a, a, first=True)
    assert all((part == 0).all() for part in control)  # no action has led here
    control = step(own, direct, itself, a, b)
    torch.testing.assert_close(control.mega_reward, torch.full((N,), 0.8))
    torch.testing.assert_close(control.g, torch.tensor([0.8, 0, 0, 0]).expand(N, 4))
    torch.testing.assert_close(control.direct, torch.tensor([0.8, 0, 0, 0]).expand(N, 4))
    handed = itself.clone()
    handed[:, 1, 0], handed[:, 1, 1] = 0.5, 0.5  # the second relies on the first as much as on itself
    control = step(own, nothing, handed, b, c)
    g = 0.99 * torch.tensor([0.8, 0.4])
    torch.testing.assert_close(own.paint[0][c[0, 0]], g[:1].expand(4))
    torch.testing.assert_close(own.paint[0][c[0, 1]], g[1:].expand(4))
    torch.testing.assert_close(control.mega_reward, (g.sum() - 0.8).expand(N))
    assert mega_reward(g, torch.tensor([0.8, 0.0])).item() == pytest.approx(control.mega_reward[0].item())
    control = step(own, nothing, itself, c, torch.zeros_like(c))  # gone: nothing is kept
    assert (own.paint == 0).all()
    assert control.mega_reward[0].item() == pytest.approx(-g.sum().item())


def test_direct_control_is_where_a_thing_is_and_where_it_was_and_g_where_it_is():
    own, direct = tracker(), torch.zeros(N, S)
    direct[:, 0] = 0.8
    left, right = patches((1, 6)), patches((1, 8))  # cells are 8 x 8
    control = step(own, direct, torch.eye(S).expand(N, S, S), left, right)
    torch.testing.assert_close(control.direct, torch.tensor([0.8, 0.8, 0, 0]).expand(N, 4))
    torch.testing.assert_close(control.g, torch.tensor([0, 0.8, 0, 0]).expand(N, 4))


def test_where_nothing_is_passed_on_a_new_thing_has_nothing_of_what_its_slot_held():
    direct, handed = torch.zeros(N, S), torch.zeros(N, S, S)
    direct[:, 0], handed[:, 1, 0] = 1, 1
    at = patches((1, 1), (5, 9))
    for goes_on in (True, False):
        own = tracker(relation="itself")
        step(own, direct, handed, at, at)
        step(own, 0 * direct, handed, at, at, goes_on=goes_on)
        assert own.paint[0][at[0, 0]].max() == pytest.approx(0.99 if goes_on else 0)
        assert not own.paint[0][at[0, 1]].any()


def test_a_flash_takes_nothing_and_gives_nothing():
    own, direct = tracker(), torch.full((N, S), 0.5)
    itself, at = torch.eye(S).expand(N, S, S), patches((1, 1), (5, 9))
    step(own, direct, itself, at, at)
    before = own.paint.clone()
    assert before.any()
    control = step(own, direct, torch.zeros(N, S, S), at, torch.zeros_like(at), level=255)
    assert torch.equal(own.paint, before)
    assert (control.direct == 0).all()


def test_what_was_gained_is_what_is_held():
    own, itself, at = tracker(), torch.eye(S).expand(N, S, S), patches((1, 1), (5, 9))
    gained = torch.zeros(N)
    for strength in (0.5, 0.25, 0.75):
        control = step(own, strength * at.any((-2, -1)), itself, at, at)
        gained += control.mega_reward
        torch.testing.assert_close(control.held, gained)
    assert (control.held > 0).all()


def test_what_moves_is_paid_for_what_is_not_the_body():
    own, nothing = tracker(reward="moved"), torch.zeros(N, S)
    direct = nothing.clone()
    direct[:, 0] = 1
    itself, a, b = torch.eye(S).expand(N, S, S), patches((1, 1), (5, 9), (12, 12)), patches((2, 1), (5, 8), (12, 12))
    c = patches((3, 1), (8, 4), (12, 12))
    everything = nothing.clone()
    everything[:, :3] = 1
    assert (step(own, everything, itself, a, a).mega_reward == 0).all()  # at once: no earlier action
    control = step(own, direct, itself, a, b)
    part = SIDE * SIDE / PARTS_OF_A_SCREEN
    # The second alone, of which two pixels show something new: the body is the first, and the third stands still.
    torch.testing.assert_close(control.mega_reward, torch.full((N,), 2 / part))
    control = step(own, direct, itself, b, c)  # it moves farther: four pixels, and it has lost a step's worth
    torch.testing.assert_close(control.mega_reward, torch.full((N,), 0.99 * 4 / part))
    assert (step(own, direct, itself, c, a, first=True).mega_reward == 0).all()
