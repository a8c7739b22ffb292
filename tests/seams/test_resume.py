"""A run that was stopped and resumed equals the uninterrupted one, bit for bit, in mini games on the CPU."""

import shutil
import signal
import time

import pytest

from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import MINI_GAMES, mini_config
from megareward.errors import UsageError
from megareward.ppo.config import PPOConfig
from megareward.runs.checkpoint import list_checkpoints
from megareward.runs.folder import RunFolder
from megareward.training import stopping
from megareward.training.config import create_run, read_config
from megareward.training.run import create, resume, start
from tests.seams.small_runs import (
    EVERY,
    ITERATIONS,
    QUIET,
    N,
    Outcome,
    PowerCutError,
    T,
    Watched,
    assert_same,
    env_of,
    run,
    run_with_a_stop,
    small,
    stop_at,
    whole,
)

A_MOMENT = 1e-9
"""Minutes; over as soon as one iteration is."""


@pytest.mark.parametrize("method", EVERY)
def test_a_run_cut_off_in_every_iteration_and_stopped_after_every_one_ends_as_if_it_had_not_been(method, tmp_path):
    config, path = small(method), tmp_path / "run"
    uninterrupted, _ = whole(config)
    assert len(uninterrupted.scores) > N  # half games, too, had to be remembered
    create(config, path)
    for iteration in range(ITERATIONS):
        power_cut = stop_at(3 * iteration, "power cut")  # at the very first step, then later and later in a rollout
        with pytest.raises(PowerCutError):
            resume(path, env=Watched(env_of(config), power_cut), **QUIET)
        resume(path, minutes=A_MOMENT, **QUIET)
    assert_same(uninterrupted, Outcome.of(path))
    begun_at = [row["from_frames"] for row in RunFolder(path).rows("processes.jsonl")]
    assert begun_at == [i * N * T for i in range(ITERATIONS) for _ in (1, 2)]


@pytest.mark.parametrize("iteration", range(ITERATIONS))
def test_a_run_stopped_by_ctrl_c_in_any_iteration_ends_as_if_it_had_not_been(iteration, tmp_path):
    config = small("extrinsic", checkpoint_minutes=60.0)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", iteration * T + 5, "Ctrl-C"))


@pytest.mark.parametrize("method", ["extrinsic", "mega"])
def test_a_rollout_that_takes_too_long_after_ctrl_c_is_dropped_and_nothing_else(method, tmp_path, monkeypatch):
    monkeypatch.setattr(stopping, "PATIENCE", 0.05)
    config, sent = small(method, checkpoint_minutes=60.0), []

    def slow(number):
        """Every rollout takes longer than patience lasts; Ctrl-C comes early in the third."""
        time.sleep(0.1)
        sent.append(number)
        if number == 2 * T + 2:
            signal.raise_signal(signal.SIGINT)

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        start(config, path, env=Watched(env_of(config), slow), **QUIET)
    assert sent[-1] < 3 * T - 1  # before the end of the rollout
    assert [row["frames"] for row in RunFolder(path).rows("metrics.jsonl")] == [N * T, 2 * N * T]
    resume(path, **QUIET)
    assert_same(whole(config)[0], Outcome.of(path))


@pytest.mark.parametrize("game", MINI_GAMES)
def test_every_mini_game_resumes_exactly_with_all_its_extras(game, tmp_path):
    extras = dict.fromkeys(["distractor", "noisy_tv", "death_flash", "moving_camera", "life_loss_is_terminal"], True)
    config = small("extrinsic", game=game, env=mini_config(game, max_steps=11, **extras))
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "stopped", 2 * T + 5, "power cut"))


def test_before_the_first_interval_is_over_the_run_begins_again(tmp_path):
    config = small("extrinsic", checkpoint_minutes=60.0)
    assert_same(whole(config)[0], run_with_a_stop(config, tmp_path / "cut", 3 * T + 1, "power cut"))


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    finished, _ = run(small("extrinsic"), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in list_checkpoints(tmp_path / "run" / "checkpoints")}
    resume(tmp_path / "run", **QUIET)
    assert_same(finished, Outcome.of(tmp_path / "run"))
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_finished_run_can_be_made_longer_and_its_warmup_stays_as_it_was(tmp_path, capsys):
    config = small("mega", frames=2 * N * T)
    start(config, tmp_path / "run", **QUIET)
    resume(tmp_path / "run", tensorboard=False)
    assert "It is finished; `megareward resume" in capsys.readouterr().err
    resume(tmp_path / "run", frames=4 * N * T, **QUIET)
    rows = RunFolder(tmp_path / "run").rows("metrics.jsonl")
    assert [row["frames"] for row in rows] == [N * T * i for i in (1, 2, 3, 4)]
    assert ["loss/policy" in row for row in rows] == [False, True, True, True]  # only the first is warm-up
    assert read_config(RunFolder(tmp_path / "run"), pytest.fail) == small("mega", frames=4 * N * T)
    with pytest.raises(UsageError, match=f"--frames is 7, but .* has {4 * N * T} frames already; ask for more"):
        resume(tmp_path / "run", frames=7, **QUIET)


def test_a_run_that_is_being_trained_is_not_made_longer_beside_it(tmp_path):
    folder = create_run(tmp_path / "run", small("extrinsic"), {})
    other = RunFolder(folder.path)
    other.lock()
    with pytest.raises(UsageError, match="Another process is working"):
        resume(folder.path, frames=10**6, **QUIET)
    other.unlock()
    assert read_config(folder, pytest.fail) == small("extrinsic")


def test_a_damaged_newest_checkpoint_costs_one_interval_and_nothing_else(tmp_path, capsys):
    finished, _ = run(small("extrinsic"), tmp_path / "run")
    newest = list_checkpoints(tmp_path / "run" / "checkpoints")[-1]
    (newest / "tensors.safetensors").write_bytes(b"nonsense")
    resume(tmp_path / "run", **QUIET)
    assert f"Checkpoint {newest.name} is damaged" in capsys.readouterr().err
    assert_same(finished, Outcome.of(tmp_path / "run"))


def test_atari_starts_new_episodes_and_says_so(tmp_path, capsys):
    ppo = PPOConfig(minibatches=2, epochs=1)
    config = small(
        "extrinsic", game="pong", env=AtariConfig(threads=1), n_envs=2, rollout_steps=4, ppo=ppo, frames=2 * 2 * 4 * 4
    )
    start(config, tmp_path / "run", minutes=A_MOMENT, **QUIET)
    resume(tmp_path / "run", tensorboard=False)
    assert "at 32 frames; the emulator starts new episodes" in capsys.readouterr().err
    assert [row["frames"] for row in RunFolder(tmp_path / "run").rows("metrics.jsonl")] == [32, 64]


def test_a_run_that_has_lost_its_checkpoints_is_refused_and_keeps_its_logs(tmp_path):
    run(small("extrinsic"), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(
        UsageError, match=r"has logs but no checkpoint to go on from.*Bring its folder checkpoints back"
    ):
        resume(tmp_path / "run", **QUIET)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}


def test_no_line_is_logged_before_there_is_a_checkpoint_to_go_back_to(tmp_path):
    config = small("extrinsic", checkpoint_minutes=60.0)
    with pytest.raises(PowerCutError):
        start(config, tmp_path / "run", env=Watched(env_of(config), stop_at(2 * T, "power cut")), **QUIET)
    assert [path.name for path in list_checkpoints(tmp_path / "run" / "checkpoints")] == [f"{0:012d}"]
    assert len(RunFolder(tmp_path / "run").rows("metrics.jsonl")) == 2


@pytest.mark.parametrize("method", ["mega", "extrinsic"])
def test_evaluations_during_training_change_nothing_that_is_learnt(method, tmp_path):
    config = small(method)
    start(config, tmp_path / "run", eval_every=2 * N * T, eval_episodes=3, **QUIET)
    assert_same(whole(config)[0], Outcome.of(tmp_path / "run"))
    rows = RunFolder(tmp_path / "run").rows("eval.jsonl")
    assert [(row["frames"], len(row["scores"])) for row in rows] == [(2 * N * T, 3), (4 * N * T, 3)]
