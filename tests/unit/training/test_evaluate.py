"""Evaluation: whole games, a fixed number per environment, raw scores, the run's own protocol."""

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from megareward.cli import main
from megareward.envs.interface import Step
from megareward.envs.mini import PongConfig
from megareward.errors import UsageError
from megareward.ppo.config import PPOConfig
from megareward.ppo.policy import Policy
from megareward.state import joined
from megareward.training import evaluate
from megareward.training.config import TrainConfig, create_run
from megareward.training.evaluate import Evaluation, Player, evaluate_run, play, save_evaluation
from megareward.training.parts import make_observers
from megareward.training.presets import with_preset
from megareward.training.run import start
from megareward.types import Int, Tensor

CPU = torch.device("cpu")
PPO = PPOConfig(minibatches=2, epochs=1)
CONFIG = TrainConfig(
    method="extrinsic", frames=96, n_envs=3, rollout_steps=8, ppo=PPO, env=PongConfig(points=1, max_steps=50)
)


class Lengths:
    """Games of environment n last 5 * n + 2 steps and bring n points a step."""

    frame_skip, n_groups, n_actions, frame_shape, device = 1, 1, 3, (32, 32), CPU
    action_names = ("left", "stay", "right")

    def __init__(self, n_envs: int) -> None:
        self.n_envs = n_envs
        self.lengths = 5 * torch.arange(n_envs) + 2
        self.actions: list[list[int]] = []
        self.closed = False

    def reset(self, seed: int) -> Step:
        self.time = torch.full((self.n_envs,), -1)
        return self.recv()

    def send(self, actions: Int[Tensor, "N"]) -> None:
        self.actions.append(actions.tolist())

    def recv(self) -> Step:
        first = (self.time < 0) | (self.time == self.lengths)
        self.time = torch.where(first, 0, self.time + 1)
        over = self.time == self.lengths
        frames = torch.zeros(self.n_envs, 32, 32, dtype=torch.uint8)
        return Step(frames, torch.arange(self.n_envs) * (~first).float(), over, ~over & over, first, over)

    def state_dict(self) -> None:
        """It cannot be saved."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        raise AssertionError(state)

    def close(self) -> None:
        self.closed = True


def weights(favourite: int | None = None) -> dict[str, Tensor]:
    torch.manual_seed(2)
    policy = Policy((32, 32), 3, 1, CONFIG.policy)
    if favourite is not None:
        policy.action_head.bias.data[favourite] = 50.0
    return joined(policy=policy.state_dict())


@pytest.fixture
def games(monkeypatch) -> list[Lengths]:
    made: list[Lengths] = []

    def make(_config, n_envs, *_args, **_kwargs):
        made.append(Lengths(n_envs))
        return made[-1]

    monkeypatch.setattr(evaluate, "make_game", make)
    return made


@pytest.mark.parametrize(("episodes", "owed"), [(1, [1]), (3, [1, 1, 1]), (7, [3, 2, 2])])
def test_every_environment_owes_a_fixed_number_of_games_so_that_long_ones_count_fully(
    games, monkeypatch, episodes, owed
):
    monkeypatch.setattr(evaluate, "MAX_ENVS", 3)
    reports: list[tuple[int, int]] = []
    played = play(
        CONFIG,
        weights(),
        episodes,
        seed=0,
        greedy=False,
        device=CPU,
        progress=lambda done, of: reports.append((done, of)),
    )
    by_env = {n: n * (5 * n + 2) for n in range(3)}  # the score tells whose game it was
    assert Counter(game.score for game in played) == {by_env[n]: quota for n, quota in enumerate(owed)}
    assert reports[0] == (0, episodes)  # told at every step: the first game may take minutes
    assert reports == sorted(reports)
    assert reports[-1] == (episodes, episodes)
    assert games[0].closed


def test_greedy_play_takes_the_likeliest_action_and_sampled_play_draws_one(games):
    for seed, greedy in ((0, True), (0, False), (0, False), (1, False)):
        play(CONFIG, weights(), 2, seed=seed, greedy=greedy, device=CPU)
    play(CONFIG, weights(favourite=2), 2, seed=0, greedy=True, device=CPU)
    greedy, once, again, other_seed, favourite = (game.actions for game in games)
    assert len({tuple(actions) for actions in greedy[1:-1]}) == 1  # the frame never changes, nor does the choice
    assert {a for actions in favourite for a in actions} == {2}
    assert once == again
    assert once != other_seed


@pytest.mark.parametrize("g_channel", ["yes", "no"])
def test_observers_run_only_if_the_policy_sees_what_they_record(tmp_path, monkeypatch, g_channel):
    config = with_preset(TrainConfig(method="mega", game="mini-pong", frames=96, g_channel=g_channel), "debug")
    folder = start(config, tmp_path / "run", tensorboard=False, quiet=True)
    made = []
    monkeypatch.setattr(evaluate, "make_observers", lambda *a, **k: made.append(make_observers(*a, **k)) or made[-1])
    evaluate_run(folder.path, 2, device=CPU)
    assert [list(observers) for observers in made] == [["control"] if g_channel == "yes" else []]


def test_without_weights_play_is_random(games):
    play(CONFIG, None, 8, seed=0, device=CPU)
    assert {a for actions in games[0].actions for a in actions} == {0, 1, 2}
    assert games[0].closed


def test_the_standard_error_needs_two_games():
    assert Evaluation(0, 0, False, [1.0, 3.0], 0).standard_error == 1.0
    assert math.isnan(Evaluation(0, 0, False, [1.0], 0).standard_error)
    assert Evaluation(0, 0, False, [1.0, 3.0], 0).mean == 2.0


@pytest.mark.parametrize("bad", [{"episodes": 0}, {"episodes": 2, "seed": -1}, {"episodes": 2, "seed": 2**31}])
def test_impossible_numbers_are_refused(tmp_path, bad):
    with pytest.raises(UsageError, match=f"--{list(bad)[-1]} is {list(bad.values())[-1]}"):
        evaluate_run(tmp_path, **bad, device=CPU)


def test_a_trained_run_is_evaluated_and_remembers_it(tmp_path: Path):
    folder = start(CONFIG, tmp_path / "run", tensorboard=False, quiet=True)
    results = [evaluate_run(folder.path, 4, seed=seed, device=CPU) for seed in (5, 5, 6)]
    for result in results:
        save_evaluation(result, folder.path / "eval.jsonl")
    assert results[0] == results[1]
    assert results[0].frames == 96
    assert len(results[0].scores) == 4
    lines = [json.loads(line) for line in (folder.path / "eval.jsonl").read_text().splitlines()]
    assert lines == [
        {"frames": 96, "seed": seed, "greedy": False, "scores": result.scores, "cut": result.cut}
        for seed, result in zip((5, 5, 6), results, strict=True)
    ]


def skilled(method: str, **reward: Any) -> TrainConfig:
    config = with_preset(TrainConfig(method=method, game="mini-pong", frames=96, g_channel="no"), "debug")
    env = PongConfig(points=2, max_steps=50, life_loss_is_terminal=True)
    return replace(config, env=env, reward=replace(config.reward, **reward))


def test_each_game_is_played_by_one_code_and_the_best_one_is_told_beside_the_score(tmp_path: Path, capsys, monkeypatch):
    """Also where lives are lost on the way, and codes of training would have changed many times."""
    folder = start(skilled("sto", hold=3), tmp_path / "run", tensorboard=False, quiet=True)
    monkeypatch.setattr(evaluate, "MAX_ENVS", 3)
    by_game: dict[int, set[int]] = {}
    step = Player.step

    def noted(self: Player, greedy: bool = False) -> Step:
        before = {game.env for game in self.finished}  # they still show the last frame of the game before
        for n, skill in enumerate(self.field("skill").tolist()):
            if n not in before:
                by_game.setdefault(n, set()).add(skill)
        made = step(self, greedy)
        for game in self.finished:
            assert len(by_game.pop(game.env)) == 1
        return made

    with monkeypatch.context() as watching:
        watching.setattr(Player, "step", noted)
        result = evaluate_run(folder.path, 24, device=CPU)
    assert len(result.skills) == len(result.scores) == 24
    assert len(set(result.skills)) > 2
    save_evaluation(result, folder.path / "eval.jsonl")
    [line] = (folder.path / "eval.jsonl").read_text().splitlines()
    assert json.loads(line)["skills"] == result.skills
    of_each = {k: [s for s, own in zip(result.scores, result.skills, strict=True) if own == k] for k in result.skills}
    best, mean, games = result.best_skill
    assert mean == max(sum(scores) / len(scores) for scores in of_each.values()) >= result.mean
    assert games == len(of_each[best])
    assert main(["eval", str(folder.path), "--episodes", "24"]) == 0
    score, beside = capsys.readouterr().out.splitlines()
    assert score.startswith(f"{result.mean:.4g} +- ")
    assert beside.startswith(f"Beside it, not the score: the best of the skills, chosen after the fact, is {best} with")


def test_where_codes_change_during_a_game_no_code_has_a_score(tmp_path: Path, capsys):
    folder = start(skilled("div", holds=(2, 2)), tmp_path / "run", tensorboard=False, quiet=True)
    result = evaluate_run(folder.path, 3, device=CPU)
    assert (result.skills, result.best_skill) == ([], None)
    assert result == evaluate_run(folder.path, 3, device=CPU)
    assert main(["eval", str(folder.path), "--episodes", "3"]) == 0
    assert "skills" not in capsys.readouterr().out


def test_games_that_a_time_limit_ends_are_counted(tmp_path: Path, capsys):
    config = replace(CONFIG, env=PongConfig(points=100, max_steps=20))  # nobody makes 100 points in 20 steps
    folder = start(config, tmp_path / "run", tensorboard=False, quiet=True)
    assert evaluate_run(folder.path, 3, device=CPU).cut == 3
    assert main(["eval", str(folder.path), "--episodes", "3"]) == 0
    assert "3 games, from" in (out := capsys.readouterr().out)
    assert "3 of them cut by the time limit" in out


def test_a_run_without_a_checkpoint_cannot_be_evaluated(tmp_path: Path):
    folder = create_run(tmp_path / "run", CONFIG, {})
    with pytest.raises(UsageError, match=r"no checkpoint yet; `megareward resume .*` trains it"):
        evaluate_run(folder.path, 2, device=CPU)
