"""Every experiment as a list of configs. Free of torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from megareward.control.config import ControlConfig
from megareward.envs.mini import MINI_GAMES
from megareward.errors import UsageError, suggestion
from megareward.training.config import TrainConfig, with_preset

Device = Literal["cpu", "cuda"]
Change = Callable[[TrainConfig], TrainConfig]


@dataclass(frozen=True)
class Cell:
    """One run and its place in the table."""

    row: str
    column: str
    config: TrainConfig

    @property
    def name(self) -> str:
        """Of its folder and of its record."""
        return f"{self.row}-on-{self.column}-s{self.config.seed}".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Experiment:
    """A table: what it asks, and the runs that answer."""

    name: str
    question: str
    rows: dict[str, Change]
    columns: dict[str, Change]
    frames: int
    seeds: int = 3

    def cells(self, frames: int | None = None, seeds: int | None = None, device: Device = "cpu") -> list[Cell]:
        """All runs, seed by seed, so that a table stopped half-way is a table of fewer seeds."""
        return [
            Cell(row, column, change_row(change_column(base_config(seed, frames or self.frames, device))))
            for seed in range(seeds or self.seeds)
            for column, change_column in self.columns.items()
            for row, change_row in self.rows.items()
        ]


def base_config(seed: int, frames: int, device: Device) -> TrainConfig:
    return TrainConfig("mega", "mini-pong", frames=frames, seed=seed, device=device)


def game(name: str, **extras: Any) -> Change:
    """Play this mini game; `extras` are options of the game, such as noisy_tv."""

    def change(config: TrainConfig) -> TrainConfig:
        config = replace(config, game=name, env=None)  # type: ignore[arg-type]  # None is the game's own default
        return with_preset(replace(config, env=replace(config.env, **extras)), "mini")

    return change


def method(name: str) -> Change:
    return lambda config: with_preset(replace(config, method=name, reward=None), "mini")


def control(**changes: Any) -> Change:
    """Mega-reward with other settings of the control models: `rtm=dict(...)` changes fields of `control.rtm`."""

    def change(config: TrainConfig) -> TrainConfig:
        models: ControlConfig = config.control
        for part, values in changes.items():
            new = replace(getattr(models, part), **values) if isinstance(values, dict) else values
            models = replace(models, **{part: new})
        return replace(config, control=models)

    return change


def both(*changes: Change) -> Change:
    def change(config: TrainConfig) -> TrainConfig:
        for one in changes:
            config = one(config)
        return config

    return change


METHODS = ("random", "mega", "dir", "rnd", "curiosity", "count", "extrinsic")
EQUATION_10 = {"hold": False, "clip": False}

MINI = Experiment(
    name="mini-games",
    question="Which reward leads to play on the mini games, and which is fooled by a noisy TV?",
    rows={name: method(name) for name in METHODS},
    columns={name: game(name) for name in MINI_GAMES}
    | {f"{name} tv": game(name, noisy_tv=True) for name in MINI_GAMES},
    frames=150_000,
)

FORMS = Experiment(
    name="forms",
    question="Which form of Eq. 10-11, of the attention and of RTM's loss leads to play?",
    rows={
        "default": lambda config: config,
        "literal Eq. 10-11": control(latent={**EQUATION_10, "reward": "difference"}),
        "positive part": control(latent={**EQUATION_10, "reward": "positive"}),
        "positive part, hold and clip": control(latent={"reward": "positive"}),
        "no g channel": lambda config: replace(config, g_channel="no"),
        "sparsemax relation": control(rtm={"attention": "sparsemax"}),
        "no anchor": control(rtm={"anchor": 0.0}),
        "no policy prior": control(adm={"policy_prior": False}),
        "blend loss": control(rtm={"loss": "blend", "source_loss": 0.0, "targets": 1.0}),
        "oracle": control(oracle={"lags": 32}),
        "oracle, literal": both(control(oracle={"lags": 32}), control(latent={**EQUATION_10, "reward": "difference"})),
    },
    columns={name: game(name) for name in MINI_GAMES},
    frames=150_000,
)

EXPERIMENTS = {experiment.name: experiment for experiment in (MINI, FORMS)}


def find_experiment(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise UsageError(f"There is no experiment '{name}'.{suggestion(name, EXPERIMENTS)} Experiments: {known}.")
    return EXPERIMENTS[name]


def matching(cells: list[Cell], words: str) -> Iterator[Cell]:
    """The cells whose names contain every one of the comma-separated words."""
    wanted = [word for word in words.split(",") if word]
    return (cell for cell in cells if all(word in cell.name for word in wanted))
