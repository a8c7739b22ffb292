"""`megareward probe`: what each form of the reward would pay to whom."""

import json
from dataclasses import replace

import pytest
import torch

from megareward.audit.probe import PLAYERS, Play, by_event, discounted, forms_of, probe, table
from megareward.cli import main
from megareward.control.config import FORMS, ControlConfig, LatentConfig, OracleConfig, by_things
from megareward.errors import UsageError
from megareward.runs.folder import RunFolder
from megareward.state import part
from megareward.training.config import read_config
from megareward.training.evaluate import newest_tensors

CPU = torch.device("cpu")
SHORT = {"steps": 34, "n_envs": 3, "discount": 0.9, "device": CPU}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    how = ["--preset", "debug", "--game", "mini-breakout", "--quiet", "--no-tensorboard", "--device", "cpu", "--out"]
    for method in ("extrinsic", "mega"):
        assert main(["train", method, *how, str(folder / method)]) == 0
    return folder


def test_returns_by_their_definition():
    generator = torch.Generator().manual_seed(0)
    rewards, over = torch.randn(7, 3, generator=generator), torch.rand(7, 3, generator=generator) < 0.3
    found = discounted(rewards, over, 0.8)
    for t in range(7):
        for n in range(3):
            expected, factor = 0.0, 1.0
            for k in range(t, 7):
                expected += factor * rewards[k, n].item()
                factor *= 0.8
                if over[k, n]:
                    break
            assert found[t, n].item() == pytest.approx(expected, abs=1e-5)


def watched(runs, player: str, steps: int = 60) -> Play:
    folder = RunFolder.open(runs / "extrinsic")
    config, mega = read_config(folder), read_config(RunFolder.open(runs / "mega"))
    forms = {"difference": LatentConfig(reward="difference"), "level": LatentConfig(reward="level")}
    play = Play(config, newest_tensors(folder, print)[0], mega, {}, forms, player, 3, CPU)
    play.moves = []
    for _ in play.run(steps):
        play.moves.append(play.player.actions.clone())
    return play


def test_the_charge_takes_all_that_was_under_control_where_the_game_ends(runs):
    play = watched(runs, "random", steps=400)
    free, charged = play.paid("difference", False), play.paid("difference", True)
    ended = torch.stack(play.terminated)
    amount = torch.stack(play.amount["difference"])
    assert ended.any()
    assert torch.equal(free[~ended], charged[~ended])
    assert torch.equal(charged[ended], -amount[:-1][ended])
    first = torch.stack(play.ended)[:-1] & ended[:-1]  # the step after a lost game opens the next
    assert (amount[2:][first] == 0).all()
    torch.testing.assert_close(play.paid("level", False)[~ended], torch.stack(play.amount["level"])[1:][~ended])


def test_players_play_as_they_are_called(runs):
    assert not torch.stack(watched(runs, "idle").moves).any()
    good, worst, random = (
        watched(runs, player, steps=1).player.rollout.log_policy[0] for player in ("good", "worst", "random")
    )  # of the same first frames
    assert (good - good[:, :1]).abs().max() > 0
    torch.testing.assert_close(worst - worst[:, :1], good[:, :1] - good)
    assert torch.allclose(random, torch.log(torch.tensor(1 / 3)))


@pytest.mark.parametrize("maps", ["untrained", "learnt", "oracle, 4 lags"])
def test_every_form_is_paid_to_every_player(runs, maps):
    given = {"learnt": {"maps": runs / "mega"}, "oracle, 4 lags": {"oracle": 4}}.get(maps, {})
    calls = []
    result = probe(runs / "extrinsic", **given, **SHORT, progress=lambda done, of: calls.append((done, of)))
    assert result["maps"] == maps
    assert calls[-1] == (4 * 34, 4 * 34)
    assert len(result["returns"]) == 2 * (1 + len(FORMS))
    assert all(tuple(row) == PLAYERS for row in result["returns"].values())
    assert any(row["random"][0] != row["idle"][0] for row in result["returns"].values())
    lines = table(result).splitlines()
    assert lines[0].split()[1:5] == list(PLAYERS)
    assert any(line.startswith("moved, charge") for line in lines)


def test_other_agents_play_beside_the_four(runs):
    folder = RunFolder.open(runs / "extrinsic")
    alone = probe(runs / "extrinsic", **SHORT)
    both = probe(runs / "extrinsic", beside=[runs / "mega"], **SHORT)
    assert tuple(both["score"]) == (*PLAYERS, "mega")
    assert {name: both["score"][name] for name in PLAYERS} == alone["score"]
    for form, paid in both["returns"].items():
        assert tuple(paid) == (*PLAYERS, "mega")
        assert {name: paid[name] for name in PLAYERS} == alone["returns"][form]
    own = Play(
        read_config(RunFolder.open(runs / "mega")),
        newest_tensors(RunFolder.open(runs / "mega"), print)[0],
        replace(read_config(folder), method="mega", reward=None),
        {},
        {"level": LatentConfig(reward="level")},
        "mega",
        3,
        CPU,
    )
    assert len(list(own.run(34))) == 34  # its own policy plays, not a random one
    assert both["score"]["mega"] == pytest.approx(1000 * float(torch.stack(own.points).mean()))
    log_policy = own.player.rollout.log_policy[0]
    assert (log_policy - log_policy[:, :1]).abs().max() > 0
    header = table(both).splitlines()[0]
    assert header.split()[1:6] == [*PLAYERS, "mega"]


def test_who_plays_beside_must_play_the_same_game_under_a_name_of_its_own(runs, tmp_path):
    with pytest.raises(UsageError, match="Two players would be called mega"):
        probe(runs / "extrinsic", beside=[runs / "mega", runs / "mega"], **SHORT)
    how = ["--preset", "debug", "--game", "mini-pong", "--quiet", "--no-tensorboard", "--device", "cpu"]
    assert main(["train", "alive", *how, "--out", str(tmp_path / "alive")]) == 0
    with pytest.raises(UsageError, match="plays mini-pong, the good player mini-breakout"):
        probe(runs / "extrinsic", beside=[tmp_path / "alive"], **SHORT)


def test_things_have_no_form_that_compares_places():
    of_cells, of_things = forms_of(ControlConfig()), forms_of(by_things(ControlConfig()))
    assert of_cells.keys() - of_things.keys() == {"positive", "record", "spread"}
    assert all(replace(by_things(ControlConfig()), latent=latent) for latent in of_things.values())


def test_the_papers_form_is_among_them():
    latent = forms_of(ControlConfig())["as printed"]
    assert (latent.reward, latent.hold, latent.clip, latent.above_chance) == ("difference", False, False, False)


def test_the_command_prints_and_writes_the_table(runs, capsys, tmp_path):
    words = [
        "--steps",
        "34",
        "--n-envs",
        "2",
        "--discount",
        "0.9",
        "--device",
        "cpu",
        "--json",
        str(tmp_path / "p.json"),
    ]
    assert main(["probe", str(runs / "extrinsic"), *words]) == 0
    assert "mini-breakout, maps: untrained" in capsys.readouterr().out
    assert json.loads((tmp_path / "p.json").read_text())["n_envs"] == 2


def test_what_cannot_be_probed_is_said(runs):
    with pytest.raises(UsageError, match=r"--steps is 30; with a discount of 0\.9 use more than 30"):
        probe(runs / "extrinsic", **{**SHORT, "steps": 30})
    with pytest.raises(UsageError, match="holds no control models"):
        probe(runs / "extrinsic", maps=runs / "extrinsic", **SHORT)


@pytest.mark.parametrize("lags", [0, 4])
def test_forms_that_share_a_look_are_paid_what_each_would_be_alone(runs, lags):
    folder = RunFolder.open(runs / "extrinsic")
    config, mega = read_config(folder), read_config(RunFolder.open(runs / "mega"))
    models = {} if lags else part(newest_tensors(RunFolder.open(runs / "mega"), print)[0], "observer.control")
    mega = replace(mega, control=replace(mega.control, oracle=OracleConfig(lags)))
    forms = {"difference": LatentConfig(reward="difference"), "moved": LatentConfig(reward="moved", hold=True)}

    def paid(chosen: dict[str, LatentConfig]) -> Play:
        play = Play(config, newest_tensors(folder, print)[0], mega, models, chosen, "random", 3, CPU)
        assert len(list(play.run(40))) == 40
        return play

    together = paid(forms)
    for name in forms:
        own = paid({name: forms[name]}).paid(name, True)
        assert own.any()
        assert torch.equal(together.paid(name, True), own)


def test_a_game_is_paid_from_its_first_frame_on(runs):
    play = watched(runs, "random", steps=400)
    opens, over = play.opens, play.over
    assert opens[0].all()
    assert opens[1:].any()
    assert not (opens & torch.stack(play.first)).any()  # no step that leaves a first frame leads to another one
    assert torch.equal(opens[1:], torch.stack(play.first)[:-1])
    assert over[:-1][opens[1:]].all()
    amount = torch.stack(play.amount["difference"])[:-1]
    assert not amount[opens].any()  # nothing is under control yet


def test_events_share_out_the_steps():
    rewards, points = torch.arange(60.0).reshape(30, 2), torch.zeros(30, 2)
    points[4, 0], points[8, 0], points[25, 1] = 1.0, -1.0, 2.0
    found = by_event(rewards, points)
    won = [*rewards[4:14, 0], *rewards[25:, 1]]
    lost = rewards[8:18, 0]
    rest = [*rewards[:4, 0], *rewards[18:, 0], *rewards[:25, 1]]
    assert found == {
        name: pytest.approx(float(sum(x) / len(x))) for name, x in zip(found, (won, lost, rest), strict=True)
    }
    assert by_event(rewards, torch.zeros(30, 2)) == {"won": None, "lost": None, "else": pytest.approx(29.5)}
