"""Settings written into a file and read back."""

from pathlib import Path

import pytest

from megareward.cli import main
from megareward.cli.train import parse_args
from megareward.errors import UsageError
from megareward.rewards import METHODS
from megareward.training.config import TrainConfig
from megareward.training.presets import PRESETS, with_preset
from megareward.training.settings_file import read_settings, with_settings, write_settings


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_config_survives_a_file(method, preset, tmp_path):
    config = with_preset(TrainConfig(method=method, game="pong", seed=3), preset)
    settings = read_settings(write_settings(config, tmp_path / "run.yaml"))
    assert with_settings(TrainConfig(method=method, game="pong"), settings, tmp_path) == config


def test_a_file_comes_after_the_preset_and_before_options(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("# mine\nmethod: rnd\ngame: mini-demon\nframes: 5000  # few\nppo.clip: 0.3\nn-envs: 16\n")
    for words in (["--config", str(file)], ["rnd", "--config", str(file)]):
        config = parse_args([*words, "--n-envs", "4"]).config()
        wanted = with_preset(TrainConfig(method="rnd", game="mini-demon"), "mini")
        assert (config.method, config.game, config.frames, config.ppo.clip) == ("rnd", "mini-demon", 5000, 0.3)
        assert (config.n_envs, config.rollout_steps) == (4, wanted.rollout_steps)


def test_what_was_written_trains_the_same_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["train", "rnd", "--preset", "debug", "--seed", "7", "--device", "cpu"]
    assert main([*words, "--write-config", "run.yaml"]) == 0
    assert capsys.readouterr().out == "Wrote run.yaml.\n"
    assert not Path("runs").exists()
    again = parse_args(["--config", "run.yaml"]).config()
    assert again == parse_args(words[1:]).config()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ppo.clipp: 0.3", "sets 'ppo.clipp', which this run does not have. Did you mean ppo.clip"),
        ("ppo.clip", "line 1 is 'ppo.clip'; write `name: value`"),
        ("seed: 1\nseed: 2", "line 2 sets 'seed' a second time"),
        ("frames: many", "has 'many' for 'frames'"),
        ("method: mega", "is about another method than 'rnd'"),
        ("ppo.clip: -1", "clip"),
    ],
)
def test_a_mistake_in_a_file_gets_one_sentence(text, sentence, tmp_path, capsys):
    (tmp_path / "run.yaml").write_text(text)
    assert main(["train", "rnd", "--config", str(tmp_path / "run.yaml")]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--config is .*nothing\.yaml, which cannot be read"):
        read_settings(tmp_path / "nothing.yaml")
