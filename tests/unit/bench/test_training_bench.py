"""A benchmark measures what it says, in a moment; how fast this machine is, is not tested."""

import json
from dataclasses import replace
from mmap import mmap

import pytest
import torch

from megareward.bench import training
from megareward.bench.emulator import play_randomly, sweep_emulator
from megareward.bench.settings import bench_config
from megareward.bench.table import markdown, running_times
from megareward.bench.training import NAMES, Measured, host_mib, measure_growth, measure_methods, measure_training
from megareward.envs.groups import Groups
from megareward.training.loop import Trainer
from megareward.training.parts import make_game
from tests.seams.small_runs import small
from tests.small_envs import IdentityEnv

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_questions_to_git(monkeypatch):
    monkeypatch.setenv("MEGAREWARD_COMMIT", "test")


def test_a_record_says_what_was_measured_and_where_the_time_went():
    record = measure_training(small("mega"), CPU, seconds=0.4)
    written = record.as_dict()
    wanted = {"game", "method", "device", "n_envs", "emulator_frames_per_s", "train_frames_per_s", "ratio_to_emulator"}
    assert wanted | {"breakdown"} <= set(written)
    assert (record.game, record.method, record.n_envs, record.grid) == ("mini-pong", "mega", 3, "4x4")
    assert record.ratio_to_emulator == record.train_frames_per_s / record.emulator_frames_per_s
    assert len(record.emulator_segments) == len(record.train_segments) + 1 == 3
    assert list(record.breakdown) == list(NAMES.values())
    during = {name: share for name, share in record.breakdown.items() if name != "checkpoint"}
    assert 0.8 < sum(during.values()) <= 1.0
    assert record.breakdown["PPO update"] > 0
    assert "ratio" in str(record)


def test_ppo_learns_from_the_first_rollout_although_the_play_protocol_begins_with_a_warm_up(monkeypatch):
    warmed_up = []
    iterate = Measured.iterate

    def spy(self, spent):
        warmed_up.append(self.trainer.warming_up)
        iterate(self, spent)

    monkeypatch.setattr(Measured, "iterate", spy)
    config = small("mega")
    assert Trainer(config, CPU).warming_up
    measure_training(config, CPU, seconds=0.1, turns=1)
    assert warmed_up
    assert not any(warmed_up)


@pytest.mark.parametrize("n_groups", [1, 3])
def test_random_play_counts_the_frames_of_all_groups_and_leaves_no_step_behind(n_groups):
    groups = [IdentityEnv(4) for _ in range(n_groups)]
    steps = [0] * n_groups
    for g, env in enumerate(groups):
        send = env.send

        def count(actions, g=g, send=send):
            assert actions.shape == (4,)
            steps[g] += 1
            send(actions)

        env.send = count
        env.reset(0)
    steps[:] = [0] * n_groups
    frames, seconds = play_randomly(Groups(groups) if n_groups > 1 else groups[0], 0.05)
    assert len(set(steps)) == 1
    assert frames == 4 * sum(steps)
    assert seconds >= 0.05


def test_growth_changes_one_thing_at_a_time():
    config = small("mega")
    records = list(measure_growth(config, CPU, 0.05, n_envs=(2, 4), grids=(2,), features=(4,)))
    seen = [(record.n_envs, record.grid, record.features) for record in records]
    assert seen == [(2, "4x4", 8), (4, "4x4", 8), (3, "2x2", 8), (3, "4x4", 4)]


def test_a_sweep_of_a_mini_game_ignores_threads_and_groups():
    records = list(sweep_emulator("mini-pong", (2, 3), (1, 2), (1, 2), 0.02, CPU))
    assert [(r["n_envs"], r["threads"], r["groups"]) for r in records] == [(2, 0, 1), (3, 0, 1)]
    assert all(r["frames_per_s"] > 0 for r in records)


def test_the_measured_config_is_a_preset_with_other_sizes():
    config = bench_config("mega", "breakout", n_envs=64, groups=2, threads=3, overlap="off")
    assert (config.n_envs, config.env.groups, config.env.threads, config.control.overlap) == (64, 2, 3, "off")
    plain = bench_config("mega", "breakout", groups=2, plain=True)
    assert (plain.env.groups, plain.ppo.cuda_graphs) == (1, False)
    assert replace(config, env=plain.env).game == "breakout"


def test_the_table_shows_every_measured_training_and_passes_over_the_rest(tmp_path):
    old = {"game": "pong", "method": "extrinsic", "n_envs": 8, "train_frames_per_s": 1500.4}
    old |= {"emulator_frames_per_s": 3000.0, "ratio_to_emulator": 0.5}
    new = old | {"method": "mega", "groups": 2, "grid": "4x4", "features": 1024, "peak_gpu_mib": 2048.2}
    (tmp_path / "a.json").write_text(json.dumps(old))
    (tmp_path / "b.json").write_text(json.dumps([new]))
    (tmp_path / "c.json").write_text(json.dumps({"frames_per_s": 3}))
    lines = markdown(tmp_path).splitlines()
    assert lines[2] == "| pong | extrinsic | 8 | 1 | - | - | 3,000 | 1,500 | 0.50 | - | `a.json` |"
    assert lines[3] == "| pong | mega | 8 | 2 | 4x4 | 1024 | 3,000 | 1,500 | 0.50 | 2,048 | `b.json` |"
    assert len(lines) == 4


def test_host_memory_is_that_of_this_process():
    before = host_mib()
    with mmap(-1, 64 * 2**20) as block:  # new pages; an array may lie in memory that was freed before
        block.write(b"x" * len(block))
        assert 30 < host_mib() - before < 200


def test_methods_are_measured_one_after_the_other_on_the_same_emulators(monkeypatch):
    built = []
    monkeypatch.setattr(
        training, "make_game", lambda *words, **named: built.append(make_game(*words, **named)) or built[-1]
    )
    closed = []
    configs = [small("alive"), small("rnd"), small("extrinsic")]
    for speed in measure_methods(configs, CPU, 0.1):
        if not closed:
            monkeypatch.setattr(built[0], "close", lambda: closed.append(True))
        assert not closed, f"closed before or after {speed.method}"
    assert len(built) == len(closed) == 1


def test_the_table_of_running_times_has_the_slowest_first_beside_the_papers_hours(tmp_path):
    speeds = [("extrinsic", 50_000.0), ("alive", 40_000.0), ("mega", 25_000.0)]
    record = tmp_path / "methods.json"
    kept = [{"method": name, "train_frames_per_s": speed, "ratio_to_emulator": speed / 6e4} for name, speed in speeds]
    record.write_text(json.dumps(kept))
    lines = running_times(record).splitlines()
    assert lines[2] == "| mega | 25,000 | 0.42 | 53.3 | 2.00 | 34.2 | 6.68 |"
    assert lines[3] == "| alive | 40,000 | 0.67 | 33.3 | 1.25 | - | - |"
    assert len(lines) == 5
