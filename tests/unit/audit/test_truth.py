"""The file of the truth, and the episodes in it."""

import dataclasses
import lzma
import math

import pytest
import torch

from megareward.audit.record import Plan, find_truth, question, truth_path
from megareward.audit.truth import AuditedEpisode, Truth, load_truth, save_truth
from megareward.control.config import ControlConfig
from megareward.counterfactual.mini import Branches
from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import mini_config
from megareward.envs.mini.games import make_mini
from megareward.errors import RunError, UsageError
from megareward.training.config import TrainConfig

PLAN = Plan(episodes=3, frames=30, lags=5, seed=9)
CONTROL = ControlConfig(H=4, W=8)


def test_what_is_saved_is_what_is_loaded(tmp_path):
    episodes = [
        AuditedEpisode(
            torch.randint(0, 256, (T + 1, 8, 6), dtype=torch.uint8),
            torch.randint(0, 2, (T,)),
            torch.randint(0, 3, (T + 1, 5, 6), dtype=torch.uint8),
        )
        for T in (3, 7)
    ]
    truth = Truth({"grid": [2, 3], "lags": 5}, ("up", "down"), episodes)
    save_truth(truth, tmp_path / "here" / "truth.safetensors")
    loaded = load_truth(tmp_path / "here" / "truth.safetensors")
    assert (loaded.about, loaded.action_names) == (truth.about, truth.action_names)
    assert (loaded.grid.H, loaded.grid.W, loaded.grid.cell_h, loaded.grid.cell_w) == (2, 3, 4, 2)
    for mine, yours in zip(truth.episodes, loaded.episodes, strict=True):
        for name, value in vars(mine).items():
            assert torch.equal(value, getattr(yours, name))
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["truth.safetensors"]


def test_a_file_is_small_and_one_from_before_it_was_compressed_is_still_read(tmp_path):
    frames = torch.zeros(101, 84, 84, dtype=torch.uint8)
    frames[torch.arange(101), torch.arange(101) % 84, 7] = 200  # something moves
    episode = AuditedEpisode(frames, torch.zeros(100).long(), torch.zeros(101, 5, 6, dtype=torch.uint8))
    path = tmp_path / "truth.safetensors.xz"
    save_truth(Truth({"grid": [2, 3], "lags": 5}, ("up", "down"), [episode]), path)
    assert path.stat().st_size < frames.numel() / 100
    older = tmp_path / "truth.safetensors"
    older.write_bytes(lzma.decompress(path.read_bytes()))
    assert torch.equal(load_truth(older).episodes[0].frames, frames)


def test_a_damaged_or_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        load_truth(tmp_path / "none.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"not a truth at all")
    with pytest.raises(RunError, match=r"bad\.safetensors is damaged"):
        load_truth(tmp_path / "bad.safetensors")


@pytest.mark.parametrize(
    ("change", "about"),
    [
        ({"frames": torch.zeros(4, 8, 5, dtype=torch.uint8)}, {}),
        ({"actions": torch.zeros(2, dtype=torch.int64)}, {}),
        ({"actions": torch.full((3,), 2)}, {}),
        ({"changed": torch.zeros(4, 5, 7, dtype=torch.uint8)}, {}),
        ({}, {"lags": 4}),
        ({}, {"lags": None}),
        ({}, {"grid": 3}),
    ],
)
def test_a_truth_whose_parts_do_not_fit_each_other_is_damaged(tmp_path, change, about):
    sizes = ((4, 8, 6), (3,), (4, 5, 6))
    kinds = (torch.uint8, torch.int64, torch.uint8)
    one, other = (
        AuditedEpisode(*(torch.zeros(size, dtype=kind) for size, kind in zip(sizes, kinds, strict=True))) for _ in "12"
    )
    episodes = [one, dataclasses.replace(other, **change)]
    save_truth(Truth({"grid": [2, 3], "lags": 5} | about, ("up", "down"), episodes), tmp_path / "truth.safetensors")
    with pytest.raises(RunError, match=r"truth\.safetensors is damaged .*; remove it and audit again"):
        load_truth(tmp_path / "truth.safetensors")


def test_g_is_equation_9_over_the_lags():
    changed = torch.zeros(3, 4, 6, dtype=torch.uint8)
    changed[2, 0, 1], changed[2, 1, 1], changed[2, 3, 5] = 1, 2, 1
    episode = AuditedEpisode(torch.zeros(3, 4, 6, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), changed)
    g = episode.g(0.5)
    assert g[2].tolist() == [0, 1.5, 0, 0, 0, 0.125]
    assert math.isclose(g.sum().item(), 1.625)
    assert episode.direct[2].tolist() == [False, True, False, False, False, False]


def test_the_truth_of_a_mini_game_is_that_of_its_branches_cut_at_the_episodes_end(tmp_path):
    config = TrainConfig("mega", "mini-demon", control=CONTROL, env=mini_config("mini-demon", max_steps=20))
    truth, path = find_truth(config, PLAN, tmp_path)
    env = make_mini("mini-demon", PLAN.episodes, mini_config("mini-demon", max_steps=20))
    step = env.reset(PLAN.seed)
    branches = Branches(env, truth.grid, PLAN.lags)
    assert max(len(episode.actions) for episode in truth.episodes) <= 20
    going = torch.ones(PLAN.episodes, dtype=torch.bool)
    for t in range(20):
        actions = torch.tensor([e.actions[t] if t < len(e.actions) else 0 for e in truth.episodes])
        step = env.step(actions)
        changed = branches.step(actions, step.first, step.frames)
        going &= ~step.first
        for n, episode in enumerate(truth.episodes):
            assert going[n] == (t < len(episode.actions))
            if going[n]:
                assert torch.equal(episode.frames[t + 1], step.frames[n])
                assert torch.equal(episode.changed[t + 1].float(), changed[n])
    again, same_path = find_truth(config, PLAN, tmp_path)
    assert same_path == path
    assert torch.equal(again.episodes[1].changed, truth.episodes[1].changed)


def test_the_truth_of_an_atari_game_holds_its_frames_and_is_found_once(tmp_path, monkeypatch):
    config = TrainConfig("mega", "breakout", control=CONTROL, env=AtariConfig(px=56, sticky=0.25, threads=1))
    plan = dataclasses.replace(PLAN, frames=10, episodes=2)
    heard = []
    truth, _ = find_truth(config, plan, tmp_path, processes=1, progress=lambda done, of: heard.append((done, of)))
    assert heard[-1] == (20, 20)
    assert [tuple(e.changed.shape) for e in truth.episodes] == [(11, 5, 32)] * 2
    assert truth.episodes[0].frames.shape == (11, 56, 56)
    assert truth.episodes[0].direct[1:].any()
    monkeypatch.setattr("megareward.audit.record.branch_episodes", None)  # a second time it would fail
    assert len(find_truth(config, plan, tmp_path)[0].episodes) == 2


def test_another_question_has_another_file(tmp_path):
    config = TrainConfig("mega", "pong", control=CONTROL)
    weights, others = {"policy.w": torch.arange(3.0)}, {"policy.w": torch.arange(3.0) + 1}
    asked, trained = question(config, PLAN, weights), dataclasses.replace(PLAN, policy="trained")
    assert question(config, PLAN, others) == asked  # random play does not depend on the checkpoint
    different = [
        question(config, dataclasses.replace(PLAN, lags=6), weights),
        question(config, trained, weights),
        question(config, trained, others),
        question(dataclasses.replace(config, control=ControlConfig()), PLAN, weights),
    ]
    assert len({truth_path(one, tmp_path) for one in (asked, *different)}) == 5


def test_a_plan_that_records_nothing_is_refused():
    with pytest.raises(UsageError, match="--lags is 0"):
        Plan(lags=0)
