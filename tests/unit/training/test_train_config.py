"""A run's configuration: JSON and back for every preset and method, and clear refusals of what does not fit."""

import dataclasses
import json

import pytest

from megareward.envs.atari_config import AtariConfig
from megareward.envs.mini import DemonConfig, PongConfig
from megareward.errors import UsageError
from megareward.experiments.plans import find_experiment
from megareward.ppo.config import PPOConfig
from megareward.rewards import METHODS
from megareward.training.config import TrainConfig, bearing, from_dict, to_dict
from megareward.training.presets import PRESETS, with_preset, with_short_warmup


def through_json(config: TrainConfig) -> TrainConfig:
    return from_dict(json.loads(json.dumps(to_dict(config))), "config.json", warn=pytest.fail)


@pytest.mark.parametrize("game", ["pong", "mini-demon"])
@pytest.mark.parametrize("preset", ["auto", *PRESETS, "paper,many", "released,many"])
@pytest.mark.parametrize("method", METHODS)
def test_a_config_survives_json_with_every_preset_and_method(method, preset, game):
    config = with_preset(TrainConfig(method=method, game=game, seed=4), preset)
    again = through_json(config)
    assert again == config
    assert type(again.reward) is METHODS[method].config
    assert type(again.env) is (AtariConfig if game == "pong" else DemonConfig)


def test_what_differs_from_the_defaults_survives_json():
    config = TrainConfig(
        method="extrinsic",
        env=PongConfig(size=40, opponent=False),
        n_envs=5,
        rollout_steps=6,
        ppo=PPOConfig(minibatches=3),
        checkpoint_minutes=0.25,
        show_score="no",
    )
    assert through_json(config) == config


@pytest.mark.parametrize("part", [None, "ppo", "policy", "reward", "env"])
def test_a_field_nobody_knows_was_written_by_another_version(part):
    data = to_dict(TrainConfig(method="extrinsic"))
    (data[part] if part else data)["brightness"] = 3
    with pytest.raises(UsageError, match=r"runs/x/config\.json was written by another version .* 'brightness'"):
        from_dict(data, "runs/x/config.json")


def test_a_missing_field_takes_its_default_aloud():
    data = to_dict(TrainConfig(method="extrinsic"))
    del data["ppo"]["gae_lambda"], data["ppo"]["clip"], data["show_score"]
    warnings: list[str] = []
    config = from_dict(data, "config.json", warnings.append)
    assert config == TrainConfig(method="extrinsic")
    assert len(warnings) == 2
    assert any("show_score of TrainConfig" in text for text in warnings)
    assert any("clip, gae_lambda of PPOConfig" in text for text in warnings)


@pytest.mark.parametrize("data", [{}, [], None, {"game": "pong"}])
def test_what_is_no_config_is_refused(data):
    with pytest.raises(UsageError, match="holds no configuration"):
        from_dict(data, "config.json")


@pytest.mark.parametrize(("field", "value"), [("ppo", 5), ("frames", "many"), ("env", [1])])
def test_a_value_of_the_wrong_kind_is_refused_with_the_file_that_holds_it(field, value):
    data = {**to_dict(TrainConfig(method="extrinsic")), field: value}
    with pytest.raises(UsageError, match=r"config\.json"):
        from_dict(data, "config.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("frames", 0), ("seed", -1), ("seed", 2**31), ("checkpoint_minutes", -0.1)),
        *(("n_envs", 0), ("rollout_steps", 0), ("warmup_steps", -1)),
    ],
)
def test_impossible_numbers_are_refused_by_their_option(field, value):
    with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} is {value}"):
        TrainConfig(method="extrinsic", **{field: value})


def test_minibatches_must_divide_the_samples_of_a_rollout():
    with pytest.raises(UsageError, match=r"--ppo.minibatches is 4, .* 15 samples .*3 environments x 5 steps"):
        TrainConfig(method="extrinsic", n_envs=3, rollout_steps=5)


def test_settings_of_the_first_version_are_found_under_their_present_names():
    old = to_dict(TrainConfig(method="mega"))
    for name in ("n_envs", "rollout_steps", "warmup_steps", "start_from"):
        del old[name]
    del old["control"]["background_frames"]
    old["ppo"] |= {"n_envs": 12, "rollout": 64}
    old["control"]["warmup_steps"] = 5_000
    config = from_dict(old, "config.json", warn=pytest.fail)
    assert (config.n_envs, config.rollout_steps, config.warmup_steps) == (12, 64, 5_000)
    assert config.control.background_frames == 10_000  # as long as the scaling of the frames looked on, at least
    assert {**bearing(old), "start_from": None} == bearing(to_dict(config))


def test_time_between_checkpoints_must_be_a_number():
    with pytest.raises(UsageError, match="nan"):
        TrainConfig(method="extrinsic", checkpoint_minutes=float("nan"))


def test_unknown_names_get_suggestions():
    with pytest.raises(UsageError, match="Did you mean extrinsic"):
        TrainConfig(method="extrinsc")
    with pytest.raises(UsageError, match="Did you mean breakout"):
        TrainConfig(method="random", game="brekout")
    with pytest.raises(UsageError, match="Did you mean paper"):
        with_preset(TrainConfig(method="random"), "papr")


def test_any_spelling_of_a_game_is_the_same_run():
    spellings = ["space_invaders", "SpaceInvaders", "ALE/SpaceInvaders-v5", "SpaceInvadersNoFrameskip-v4"]
    assert len({TrainConfig(method="Random", game=game) for game in spellings}) == 1


def test_frames_are_emulator_frames_and_iterations_are_rounded_up():
    sizes = {"n_envs": 3, "rollout_steps": 8, "ppo": PPOConfig(minibatches=2)}
    assert TrainConfig(method="random", game="pong", frames=3 * 8 * 4 * 5, **sizes).iterations == 5
    assert TrainConfig(method="random", game="mini-pong", frames=3 * 8 * 5 + 1, **sizes).iterations == 6


def test_the_score_is_hidden_from_methods_that_do_not_use_it():
    assert TrainConfig(method="random").hides_score
    assert not TrainConfig(method="extrinsic").hides_score
    assert TrainConfig(method="extrinsic", show_score="no").hides_score
    assert not TrainConfig(method="random", show_score="yes").hides_score


def test_presets_change_nothing_but_what_they_are_about():
    config = TrainConfig(method="extrinsic", game="pong", seed=9, env=AtariConfig(sticky=0.25))
    for name in PRESETS:
        changed = with_preset(config, name)
        for field in ("method", "game", "seed", "reward", "show_score"):
            assert getattr(changed, field) == getattr(config, field), (name, field)
        if name != "rnd-paper":  # which is about the games, too; groups leave no trace in the data
            assert dataclasses.replace(changed.env, groups=1) == config.env, name


def test_presets_are_applied_in_order():
    config = TrainConfig(method="mega", game="pong")
    assert with_preset(config, "paper,many") == PRESETS["many"](PRESETS["paper"](config))
    assert with_preset(config, "many, paper") == PRESETS["paper"](PRESETS["many"](config))
    assert with_preset(config, "paper,many").n_envs == 128
    assert with_preset(config, "many,paper").n_envs == 8


def test_moved_is_the_row_of_the_tables_that_is_called_so():
    """And changes nothing of methods that have no such settings, but for the control models that nobody uses then."""
    row = find_experiment("death").rows["moved, information"]
    config = TrainConfig(method="mega", game="mini-pong")
    assert with_preset(config, "auto,moved") == row(config)
    rnd = TrainConfig(method="rnd", game="mini-pong")
    assert with_preset(rnd, "moved") == dataclasses.replace(rnd, control=with_preset(rnd, "moved").control)


def test_auto_is_the_games_own_preset_among_others_too():
    for game, own in (("pong", "default"), ("mini-pong", "mini")):
        config = TrainConfig(method="mega", game=game)
        assert with_preset(config, "auto,many") == with_preset(config, f"{own},many")


@pytest.mark.parametrize(
    ("names", "words"), [("paper,mny", "no preset 'mny'. Did you mean"), ("paper,", "no preset ''")]
)
def test_one_unknown_preset_among_others_is_refused(names, words):
    with pytest.raises(UsageError, match=words):
        with_preset(TrainConfig(method="random"), names)


def test_many_environments_alone_are_the_default_with_larger_minibatches():
    config = TrainConfig(method="mega", game="pong")
    ppo = PPOConfig(minibatches=8, learning_rate=3.5e-4, precision="bfloat16", clip_decays=False)
    assert with_preset(config, "many") == dataclasses.replace(
        config, n_envs=128, rollout_steps=32, ppo=ppo, env=AtariConfig(groups=4)
    )


@pytest.mark.parametrize("literal", ["paper", "released"])
def test_with_many_environments_a_literal_preset_keeps_what_is_literal(literal):
    few, many = (with_preset(TrainConfig(method="mega", game="pong"), names) for names in (literal, f"{literal},many"))
    faster = {"minibatches": 8, "learning_rate": few.ppo.learning_rate * 1.4, "precision": "bfloat16"}
    assert many.ppo == dataclasses.replace(few.ppo, **faster)
    rate = few.control.learning_rate * 32**0.5
    assert many.control == dataclasses.replace(few.control, batch=256, learning_rate=rate, overlap="auto")
    for name in ("reward", "policy", "g_channel", "warmup_steps", "episodic"):
        assert getattr(many, name) == getattr(few, name), name


def test_the_papers_preset_is_the_published_ppo():
    config = with_preset(TrainConfig(method="mega", game="pong"), "paper")
    published = {"epochs": 3, "minibatches": 4, "learning_rate": 2.5e-4, "clip": 0.1, "gae_lambda": 0.95}
    assert {name: getattr(config.ppo, name) for name in published} == published
    assert (config.ppo.learning_rate_decays, config.ppo.clip_decays, config.ppo.clip_value) == (True, True, False)
    assert config.ppo.value_weight == 2  # our loss is half the squared error, of which the paper takes all
    assert (config.reward.end_takes_all, config.reward.normalise) == (False, False)


def test_the_released_preset_is_the_released_ppo():
    config = with_preset(TrainConfig(method="mega", game="pong"), "released")
    r15 = {"epochs": 4, "minibatches": 4, "learning_rate": 2.5e-4, "clip": 0.1, "value_weight": 0.5}
    assert {name: getattr(config.ppo, name) for name in r15} == r15
    assert (config.ppo.learning_rate_decays, config.ppo.clip_decays, config.ppo.clip_value) == (True, True, True)
    assert (config.policy.normalise, config.policy.padding, config.shows_g) == ("pixel", "zeros", False)
    assert (config.reward.bonus, config.reward.end_takes_all) == ("count", False)


@pytest.mark.parametrize("literal", ["paper", "released"])
def test_the_control_models_of_both_take_256_gradient_steps_per_rollout(literal):
    config = with_preset(TrainConfig(method="mega", game="pong"), literal)
    kept = config.batch * config.control.replay  # transitions to learn from, but for those that cross a reset
    assert kept * config.control.fraction * config.control.passes / config.control.batch == 256


@pytest.mark.parametrize("method", ["rnd", "curiosity", "count", "alive"])
def test_the_papers_preset_leaves_rewards_of_other_papers_alone(method):
    config = TrainConfig(method=method, game="pong")
    assert with_preset(config, "paper").reward == with_preset(config, "released").reward == config.reward


def test_configs_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrainConfig(method="random").seed = 1


@pytest.mark.parametrize(
    ("game", "preset", "frames", "steps"),
    [
        ("breakout", "auto", 200_000, 12_500),
        ("breakout", "many", 1_000_000, 62_500),
        ("breakout", "auto", 10_000_000, 614_400),  # from here on nothing is shortened
        ("breakout", "many", 80_000_000, 614_400),
        ("breakout", "released", 10_000_000, 614_400),
        ("breakout", "paper", 200_000, 0),
        ("mini-pong", "auto", 12_000, 3_000),
        ("mini-pong", "auto", 150_000, 20_000),
    ],
)
def test_the_warmup_takes_at_most_a_quarter_of_a_short_run(game, preset, frames, steps):
    config = with_preset(TrainConfig(method="mega", game=game, frames=frames), preset)
    shortened = with_short_warmup(config)
    assert shortened.warmup_steps == steps
    assert dataclasses.replace(shortened, warmup_steps=config.warmup_steps) == config
    assert shortened.warmup_iterations < shortened.iterations
