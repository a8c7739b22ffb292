"""The command line: quick help, one clear sentence for every mistake, and the right exit status."""

import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from megareward import __version__, cli
from megareward.cli import bench, main, methods, train
from megareward.ppo.update import PPO
from megareward.reward_stream import RewardStream
from megareward.rewards import METHODS, Method
from megareward.rewards.interface import RewardTerm, Stateless
from megareward.rewards.settings import NoSettings
from megareward.runs.checkpoint import list_checkpoints, load_newest
from megareward.runs.folder import RunFolder
from megareward.training import run
from megareward.training.config import TrainConfig, read_config
from megareward.training.presets import with_preset

TINY = ["--preset", "debug", "--device", "cpu", "--no-tensorboard"]
FRAMES = 24
"""Of one iteration of the debug preset."""


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEGAREWARD_COMMIT", "test")


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence of a refusal with status 2; nothing is printed but that and, where only a part of the run can tell,
    what was to be trained; nothing is left on disk."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"(\w+ on [^\n]+ knows better\.\n)?megareward: [^\n]+\.\n", err), err
    assert not Path("runs").exists()
    return err


def trained(out: str, *words: str) -> RunFolder:
    assert main(["train", "extrinsic", *TINY, "--quiet", "--out", out, *words]) == 0
    return RunFolder.open(Path(out))


def program(*words: str, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "megareward.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


# Help and lists ------------------------------------------------------------------------------------------------------

QUICK = [
    "--help",
    "train --help",
    "train extrinsic --help",
    "resume --help",
    "eval --help",
    "methods",
    "games",
    "results",
]


HEAVY = {"torch", "ale_py", "gymnasium", "matplotlib"}


@pytest.mark.parametrize("words", QUICK)
def test_help_and_lists_answer_within_a_second_and_without_torch(words):
    """A second of the processor: what else the machine does is not the program's fault."""
    source = (
        "import sys\nfrom megareward.cli import main\n"
        f"try: status = main({words.split()!r})\n"
        "except SystemExit as ending: status = ending.code or 0\n"
        f"heavy = {HEAVY | ({'tyro', 'numpy'} if words == '--help' else set())} & set(sys.modules)\n"
        "sys.exit(status or (f'imported {heavy}' if heavy else 0))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 1.0


def test_without_a_command_the_usage_is_shown_and_the_status_is_2(capsys):
    assert main([]) == 2
    assert "usage: megareward COMMAND" in capsys.readouterr().out
    assert main(["--help"]) == 0


def test_the_usage_names_every_command(capsys):
    main(["--help"])
    usage = capsys.readouterr().out
    assert all(re.search(rf"^  {command}\b", usage, re.MULTILINE) for command in cli.COMMANDS)


def test_every_command_has_a_file_of_its_own():
    assert len(set(cli.COMMANDS.values())) == len(cli.COMMANDS)
    for module in cli.COMMANDS.values():
        assert callable(importlib.import_module(module).command)


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_methods_tells_which_see_the_score(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(METHODS)
    for line, method in zip(lines, METHODS.values(), strict=True):
        assert line.startswith(method.name)
        assert ("never sees the score" in line) != method.uses_score


def test_games_lists_atari_and_mini_games(capsys):
    assert main(["games"]) == 0
    out = capsys.readouterr().out
    assert {"pong", "space_invaders", "mini-pong"} <= {line.split()[0] for line in out.splitlines()}


def test_help_of_training_shows_the_settings_of_method_game_and_preset(capsys):
    with pytest.raises(SystemExit) as ending:
        main(["train", "extrinsic", "--game", "pong", "--preset", "many", "--help"])
    assert ending.value.code == 0
    out = capsys.readouterr().out
    for option in ("--reward.clip", "--env.sticky", "--n-envs", "--frames"):
        assert option in out
    assert "(default: 128)" in out  # environments of the preset `many`


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preset", ["auto", "paper", "debug", "released,many"])
def test_without_options_the_config_is_that_of_the_preset(method, preset):
    args = train.parse_args([method, "--game", "Pong", f"--preset={preset}"])
    assert args.config() == with_preset(TrainConfig(method, "pong"), preset)
    assert type(args.config()) is TrainConfig


def test_every_setting_of_a_run_but_the_method_is_an_option(capsys):
    with pytest.raises(SystemExit):
        main(["train", "mega", "--help"])
    out = capsys.readouterr().out
    for field in fields(TrainConfig):
        name = {"start_from": "from"}.get(field.name, field.name.replace("_", "-"))
        assert any(f"--{name}{end}" in out for end in " .,") == (field.name != "method"), field.name


def test_the_run_to_start_from_is_a_setting(monkeypatch):
    calls = []
    monkeypatch.setattr(run, "start", lambda config, out, **how: calls.append((config, how)))
    assert main(["train", "extrinsic", "--quiet", "--from", "runs/before"]) == 0
    assert main(["train", "extrinsic", "--quiet"]) == 0
    (one, how), (other, usual) = calls
    assert (one.start_from, other.start_from) == ("runs/before", None)
    assert how == usual


# Mistakes in the words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("trian", "There is no command 'trian'. Did you mean train"),
        ("train extrinsc", "There is no method 'extrinsc'. Did you mean extrinsic?"),
        ("train extrinsic --game pnog", "There is no game 'pnog'. Did you mean pong?"),
        ("train extrinsic --game=mini-pog", "There is no game 'mini-pog'. Did you mean mini-pong"),
        ("train extrinsic --game joust", "for two players only"),
        ("train extrinsic --preset papr", "There is no preset 'papr'. Did you mean paper"),
        ("train extrinsic --preset paper,mny", "There is no preset 'mny'. Did you mean many?"),
        ("train", "Which method? `megareward train METHOD ...`; methods: "),
        ("bench emulator --n-envs 0", "--n-envs is 0; it must lie between 1 and 65536."),
        ("bench emulator --n-envs 8 1000000000", "--n-envs is 1000000000; it must lie between"),
        ("bench emulator --seconds nan", "--seconds is nan; it must lie between 0.001 and 86400."),
        ("bench train --seconds -1", "--seconds is -1.0; it must lie between"),
        ("bench growth --grids 4 0", "--grids is 0; it must lie between 1 and 84."),
        ("bench growth --features -1", "--features is -1; it must lie between"),
        ("bench methods --methods sto-manager", "sto-manager starts from a finished run; name methods that"),
        ("bench methods --table nowhere.json", "nowhere.json is no file; name a record"),
        ("bench control --batch -3", "--batch is -3; it must lie between 2 and"),
        ("bench control --envs 0", "--envs is 0; it must lie between"),
        ("bench control --threads -1", "--threads is -1; it must lie between 0 and"),
        ("bench wrapper --n-envs -1", "--n-envs is -1; it must lie between"),
        ("bench table --folder nowhere", "nowhere is no folder; name one that holds records"),
        (
            "train extrinsic --n-envs 1000000000",
            "--n-envs 1000000000 and --rollout-steps",
        ),
        ("bench emulatr", "There is no benchmark 'emulatr'. Did you mean emulator?"),
        ("train extrinsic --frames 0", "--frames is 0; it must be at least 1."),
        ("train extrinsic --frames -5", "'-5' is no count; write it as"),
        ("train extrinsic --frames abc", "'abc' is no count; write it as"),
        ("train extrinsic --frames 1.5", "'1.5' is not a whole number."),
        ("train extrinsic --frames 1e400", "'1e400' is too large a count"),
        ("train extrinsic --seed -1", "--seed is -1; it must lie between 0 and"),
        ("train extrinsic --minutes 0", "--minutes is 0; it must be above 0."),
        ("train extrinsic --checkpoint-minutes -1", "--checkpoint-minutes is -1.0; it must be 0 or more."),
        ("train extrinsic --n-envs 0", "--n-envs is 0; it must be at least 1."),
        ("train extrinsic --ppo.minibatches 7", "ppo.minibatches is 7, which does not divide the 2048 samples"),
        ("train extrinsic --ppo.learning-rate -1", "ppo.learning_rate is -1.0; it must be above 0."),
        ("train extrinsic --env.size 7", "size=7 is no frame size for a mini game; choose 32 to 256 pixels."),
        ("train extrinsic --game pong --env.sticky 2", "--env.sticky is 2.0; it must be a probability below 1"),
        ("train extrinsic --reward.discount 3", "discount of stream 'extrinsic' is 3.0; it must lie in [0, 1]."),
        ("train extrinsic --policy.stack 0", "policy.stack is 0; it must be at least 1."),
        ("train extrinsic --policy.trunk nature", "too small for the trunk 'nature'; use 'small'"),
        ("train random --game darkchambers", "accept this with --env.allow-visible-score"),
        ("train mega --game breakout --frames 4k", "use --frames 8192 or more, or --warmup-steps 0."),
        ("train rnd --frames 6k --warmup-steps 20000", "the policy would never learn; use --frames 22528 or more"),
        ("resume nowhere", "nowhere does not exist; give the folder that `megareward train` wrote."),
        ("eval nowhere", "nowhere does not exist"),
        ("eval nowhere --episodes 0", "--episodes is 0; it must be at least 1."),
        ("results add nowhere", "nowhere does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence_that_names_it_and_status_2(words, sentence, capsys):
    assert sentence in refused(words.split(), capsys)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_asking_for_a_gpu_where_there_is_none_is_refused(capsys):
    assert "torch sees no GPU; use --device cpu" in refused(["train", "extrinsic", "--device", "cuda"], capsys)


@pytest.mark.parametrize(
    "words", ["train extrinsic --n-env 3", "train extrinsic --seed x", "resume", "eval --epsodes 3"]
)
def test_a_misspelt_or_missing_option_ends_with_status_2_and_a_hint_in_stderr(words, capsys):
    with pytest.raises(SystemExit) as ending:
        main(words.split())
    assert ending.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--help" in err
    assert "Traceback" not in err
    if "n-env" in words:
        assert "--n-envs" in err


@pytest.mark.parametrize("words", ["train extrinsic --env.size 7", "resume nowhere"])
def test_debug_shows_the_traceback_too(words, capsys):
    assert main([*words.split(), "--debug"]) == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert err.splitlines()[-1].startswith("megareward: ")


def test_a_mistake_of_ours_is_called_one_and_ends_with_status_1(monkeypatch, capsys):
    def broken(words: list[str]) -> int:
        return {}["missing"]

    monkeypatch.setattr(methods, "command", broken)
    assert main(["methods"]) == 1
    assert (
        capsys.readouterr().err
        == "megareward: internal error, KeyError: 'missing' (run again with --debug to see where)\n"
    )


# Training and what can stand in its way ------------------------------------------------------------------------------


def test_training_leaves_a_folder_under_runs_and_says_what_came_out(capsys):
    assert main(["train", "random", *TINY]) == 0
    assert main(["train", "random", *TINY]) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["mini-pong-random-s0", "mini-pong-random-s0-2"]
    out, err = capsys.readouterr()
    assert "runs/mini-pong-random-s0" in out
    assert "96 of 96 frames" in err


def test_a_run_says_what_it_is_and_how_to_see_its_curves(capsys):
    assert main(["train", "extrinsic", "--preset", "debug", "--device", "cpu", "--out", "run"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("extrinsic on ")
    assert "Curves: tensorboard --logdir run\n" in err


def test_a_short_run_has_a_short_warmup_unless_it_is_asked_for():
    words = ["train", "rnd", "--game", "mini-pong", "--frames", "12k", "--quiet", "--no-tensorboard"]
    assert main([*words, "--out", "short"]) == 0
    assert RunFolder(Path("short")).record()["config"]["warmup_steps"] == 3_000
    assert main([*words, "--out", "given", "--warmup-steps", "5000"]) == 0
    assert RunFolder(Path("given")).record()["config"]["warmup_steps"] == 5_000


def test_options_override_the_preset():
    folder = trained("run", "--frames", "0.048k", "--n-envs", "2", "--env.no-opponent", "--reward.clip", "none")
    config = read_config(folder)
    assert (config.frames, config.n_envs, config.rollout_steps) == (48, 2, 8)
    assert not config.env.opponent
    assert config.reward.clip == "none"
    assert len(folder.rows("metrics.jsonl")) == 3


def test_an_existing_run_is_not_overwritten(capsys):
    folder = trained("run")
    before = (folder.path / "config.json").read_bytes()
    sentence = refused(["train", "extrinsic", *TINY, "--out", "run", "--seed", "1"], capsys)
    assert "run exists already: `megareward resume run` continues it; or choose another --out." in sentence
    assert (folder.path / "config.json").read_bytes() == before


def test_a_folder_that_cannot_be_written_is_named(capsys):
    Path("file").write_text("")
    assert "Cannot create file/run (" in refused(["train", "extrinsic", *TINY, "--out", "file/run"], capsys)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(capsys):
    Path("locked").mkdir(mode=0o500)
    sentence = refused(["train", "extrinsic", *TINY, "--out", "locked/run"], capsys)
    assert "Cannot create locked/run (Permission denied); choose another --out." in sentence


def test_a_run_that_cannot_begin_leaves_no_folder(capsys):
    refused(["train", "extrinsic", *TINY, "--policy.trunk", "nature", "--out", "run"], capsys)
    assert not Path("run").exists()
    trained("run")


def test_a_config_of_another_version_is_refused(capsys):
    folder = trained("run")
    record = folder.record()
    (folder.path / "config.json").write_text(json.dumps({**record, "config_version": 99}))
    assert "has config version 99, this megareward reads versions 1 to 2" in refused(["resume", "run"], capsys)
    record["config"]["ppo"]["warp"] = 9
    (folder.path / "config.json").write_text(json.dumps(record))
    assert "written by another version of megareward: it sets 'warp'" in refused(["resume", "run"], capsys)


def test_a_config_of_no_sense_is_a_failure(capsys):
    folder = trained("run")
    (folder.path / "config.json").write_text("{")
    assert main(["resume", "run"]) == 1
    assert "run/config.json is not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(("other", "what"), [(["--game", "mini-demon"], "game 'mini-demon'"), ([], "method 'random'")])
def test_a_checkpoint_of_another_run_is_refused(other, what, capsys):
    folder = trained("run")
    method = "extrinsic" if other else "random"
    assert main(["train", method, *TINY, "--quiet", "--out", "other", *other]) == 0
    shutil.rmtree(folder.checkpoints)
    shutil.copytree("other/checkpoints", folder.checkpoints)
    capsys.readouterr()
    sentence = refused(["resume", "run"], capsys)
    assert f"is a checkpoint of {what}" in sentence
    assert "checkpoints cannot move between runs" in sentence


def test_two_processes_cannot_work_on_one_run(capsys):
    folder = trained("run")
    folder.lock()
    assert "Another process is working on run; wait for it or stop it first." in refused(["resume", "run"], capsys)
    folder.unlock()
    assert main(["resume", "run", "--quiet"]) == 0


def test_a_damaged_checkpoint_is_passed_over_aloud_and_two_are_a_failure(capsys):
    folder = trained("run")
    newest = list_checkpoints(folder.checkpoints)[-1]
    (newest / "state.json").write_text("{}")
    assert main(["resume", "run"]) == 0
    err = capsys.readouterr().err
    assert f"Checkpoint {newest.name} is damaged (state.json does not match its hash)" in err
    assert "Resuming run at 72 frames" in err
    for path in list_checkpoints(folder.checkpoints):
        (path / "manifest.json").unlink()
    assert main(["resume", "run"]) == 1
    assert "All 2 checkpoints in run/checkpoints are damaged; start a new run." in capsys.readouterr().err


# A full disk ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [600, 200_000])
def test_a_full_disk_is_one_sentence_and_afterwards_the_run_goes_on(limit):
    """No file may grow beyond the limit: 600 bytes stop a log, 200,000 a checkpoint."""
    whole = trained("whole")
    folder = trained("run", "--minutes", "1e-9")
    assert [path.name for path in list_checkpoints(folder.checkpoints)][-1] == f"{FRAMES:012d}"

    def shrink_the_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = program("resume", "run", preexec_fn=shrink_the_disk)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    lines = [line for line in err.splitlines() if line.startswith("megareward:")]
    assert len(lines) == 1
    assert "No space is left for run; free some, then `megareward resume run` goes on" in lines[0]
    assert "Traceback" not in err
    assert [path.name for path in list_checkpoints(folder.checkpoints)][-1] == f"{FRAMES:012d}"
    assert main(["resume", "run", "--quiet", "--no-tensorboard"]) == 0
    ends = [load_newest(run.checkpoints, pytest.fail)[1] for run in (whole, folder)]
    assert all(torch.equal(tensor, ends[1][name]) for name, tensor in ends[0].items())
    assert whole.rows("scores.jsonl") == folder.rows("scores.jsonl")
    assert len(folder.rows("processes.jsonl")) >= 2


# NaN -----------------------------------------------------------------------------------------------------------------


class Spoils(Stateless):
    """Rewards that are fine until some iteration, and then not a number."""

    def __init__(self, good_iterations: int) -> None:
        self.left = good_iterations

    def compute(self, recorded):
        self.left -= 1
        return torch.full(recorded.actions.shape, 1.0 if self.left >= 0 else float("nan"))


@pytest.fixture
def spoiling(monkeypatch):
    """A function that adds the method `spoils` to the zoo."""

    def add(good_iterations: int) -> None:
        module = SimpleNamespace(
            build=lambda config, world: [RewardTerm(RewardStream("spoils"), Spoils(good_iterations))]
        )
        monkeypatch.setitem(sys.modules, "spoiling_reward", module)
        monkeypatch.setitem(METHODS, "spoils", Method("spoils", "Spoils.", NoSettings, "spoiling_reward", True))

    return add


def test_a_nan_stops_the_run_by_its_name_and_leaves_the_last_good_checkpoint(spoiling, capsys):
    spoiling(2)
    assert main(["train", "spoils", *TINY, "--quiet", "--out", "run"]) == 1
    folder = RunFolder.open(Path("run"))
    assert capsys.readouterr().err == (
        f"megareward: 'reward/spoils' became NaN or infinite at {2 * FRAMES} frames. The last good checkpoint is "
        f"run/checkpoints/{2 * FRAMES:012d}; resume it, or start again with a lower --ppo.learning-rate.\n"
    )
    _, tensors, state = load_newest(folder.checkpoints, pytest.fail)
    assert state["frames"] == 2 * FRAMES
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    spoiling(100)  # whatever was wrong is repaired: the run goes on to its end
    assert main(["resume", "run", "--quiet"]) == 0
    assert [row["frames"] for row in folder.rows("metrics.jsonl")] == [FRAMES * i for i in (1, 2, 3, 4)]


def test_a_nan_before_the_first_checkpoint_does_not_promise_one(spoiling, capsys):
    spoiling(0)
    assert main(["train", "spoils", *TINY, "--quiet", "--out", "run"]) == 1
    assert "'reward/spoils' became NaN or infinite at 0 frames. Nothing was learnt yet;" in capsys.readouterr().err


def test_weights_that_explode_are_noticed(capsys, monkeypatch):
    update = PPO.update

    def exploding(ppo, *samples):
        metrics = update(ppo, *samples)
        next(ppo.policy.parameters()).data[0] = torch.inf
        return metrics

    monkeypatch.setattr(PPO, "update", exploding)
    assert main(["train", "extrinsic", *TINY, "--quiet"]) == 1
    assert re.search(r"'[\w/.]+' became NaN or infinite", capsys.readouterr().err)


# What else can be in the way -----------------------------------------------------------------------------------------


def test_runs_started_at_the_same_moment_get_names_of_their_own(monkeypatch):
    """Every process sees the same names as free, and only one of them gets the first."""
    taken, real_rename = iter(["-2", "-3"]), os.rename

    def late(source, target):
        if (number := next(taken, None)) is not None:  # two others are faster
            shutil.copytree(source, target)
            assert target.name == "mini-pong-random-s0" + {"-2": "", "-3": "-2"}[number]
        real_rename(source, target)

    with monkeypatch.context() as hurried:
        hurried.setattr(os, "rename", lambda a, b: late(a, Path(b)) if "mini-pong" in str(b) else real_rename(a, b))
        assert main(["train", "random", *TINY, "--quiet"]) == 0
    names = sorted(path.name for path in Path("runs").iterdir())
    assert names == ["mini-pong-random-s0", "mini-pong-random-s0-2", "mini-pong-random-s0-3"]
    assert len(RunFolder(Path("runs/mini-pong-random-s0-3")).rows("metrics.jsonl")) == 4


def test_a_name_that_was_asked_for_is_not_numbered(capsys):
    trained("run")
    assert main(["train", "extrinsic", *TINY, "--quiet", "--out", "run"]) == 2


def test_help_of_the_benchmarks_lists_them(capsys):
    assert main(["bench", "--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in bench.BENCHES)


def test_the_control_benchmark_takes_the_device_that_is_there(monkeypatch):
    devices = []
    monkeypatch.setattr("megareward.bench.control.bench_control", lambda device, *a: devices.append(device) or {})
    assert main(["bench", "control", "--device", "auto"]) == 0
    assert devices == [run.pick_device("auto")]


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (MemoryError(), "There is not enough memory for this; use fewer environments"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "There is not enough memory for this"),
        (
            PermissionError(13, "Permission denied", "some/file"),
            "Cannot use some/file (Permission denied); put it right",
        ),
    ],
)
def test_what_the_machine_refuses_is_no_internal_error(failure, sentence, monkeypatch, capsys):
    def fails(words: list[str]) -> int:
        raise failure

    monkeypatch.setattr(methods, "command", fails)
    assert main(["methods"]) == 1
    assert capsys.readouterr().err.startswith(f"megareward: {sentence}")


def test_a_ledger_that_is_no_folder_is_named(capsys):
    trained("run", "--frames", "4k", "--n-envs", "20", "--env.points", "1")
    Path("file").write_text("")
    assert main(["results", "add", "run", "--ledger", "file"]) == 1
    assert "Cannot write file/mini-pong/extrinsic-s0-4k-test.json (Not a directory)" in capsys.readouterr().err


# Ctrl-C --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "name", "status"),
    [("SIGINT", "Ctrl-C", 130), ("SIGTERM", "SIGTERM", 143), ("SIGHUP", "SIGHUP", 129)],
)
def test_a_signal_saves_tells_how_to_go_on_and_has_a_status_of_its_own(sent, name, status):
    process = program("train", "extrinsic", *TINY, "--frames", "10M", "--checkpoint-minutes", "60", "--out", "run")
    folder, begun = RunFolder(Path("run")), time.monotonic()
    while len(folder.rows("metrics.jsonl")) < 2 and time.monotonic() - begun < 60:
        time.sleep(0.02)
    process.send_signal(signal.Signals[sent])
    _, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    rows = folder.rows("metrics.jsonl")
    assert f"{name}: stopping" in err
    assert f"Stopped by {name} at" in err
    assert "`megareward resume run` goes on." in err
    assert "Traceback" not in err
    _, _, state = load_newest(folder.checkpoints, pytest.fail)
    assert state["frames"] == rows[-1]["frames"]
    assert main(["resume", "run", "--quiet", "--minutes", "1e-9"]) == 0
    assert folder.rows("metrics.jsonl")[:-1] == rows


# After training ------------------------------------------------------------------------------------------------------


def test_eval_prints_the_mean_of_whole_games(capsys):
    folder = trained("run")
    assert main(["eval", "run", "--episodes", "3", "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    [evaluation] = folder.rows("eval.jsonl")
    assert out.startswith(f"{sum(evaluation['scores']) / 3:.4g} +- ")
    assert "standard error of 3 games" in out
    assert "at 96 frames of training" in out


def test_a_run_is_recorded_and_tabulated(capsys):
    trained("run", "--frames", "4k", "--n-envs", "20", "--env.points", "1")
    assert main(["results"]) == 0
    assert "No runs are recorded yet" in capsys.readouterr().out
    assert main(["results", "add", "run"]) == 0
    assert capsys.readouterr().out == "Wrote results/runs/mini-pong/extrinsic-s0-4k-test.json.\n"
    assert main(["results"]) == 0
    head, line = capsys.readouterr().out.splitlines()[:2]
    assert head.split()[:5] == ["game", "method", "frames", "seeds", "score"]
    assert line.split()[:4] == ["mini-pong", "extrinsic", "4k", "1"]


def test_a_run_without_a_finished_game_is_not_recorded(capsys):
    trained("run")
    assert "has not finished a single game" in refused(["results", "add", "run"], capsys)


# Completion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("megareward expe", ["experiment"]),
        ("megareward train mega-c", ["mega-count"]),
        ("megareward train rnd --game mini-d", ["mini-demon"]),
        ("megareward train rnd --game space_inv", ["space_invaders"]),
        ("megareward experiment death-at", ["death-atari"]),
    ],
)
def test_bash_completes(line, found, capsys):
    assert main(["--completion"]) == 0
    words = line.split()
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _megareward; echo ${{COMPREPLY[@]}}"
    script = capsys.readouterr().out + "\n" + ask
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == found
