"""What a run has written so far, read from its folder."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.runs.folder import RunFolder, is_number

NEEDED = {"game": str, "method": str, "seed": int, "frames": int, "env": dict, "reward": dict | None}
"""Settings that every reader of a run needs, with their types."""


@dataclass(frozen=True)
class RunLogs:
    """The settings as they were written, and the rows of every log."""

    path: Path
    config: dict[str, Any]
    provenance: dict[str, Any]
    episodes: list[dict[str, Any]]
    metrics: list[dict[str, float]]
    evaluations: list[dict[str, Any]]
    processes: list[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> "RunLogs":
        folder = RunFolder.open(path)
        about = folder.record()
        for name, kind in NEEDED.items():
            if not isinstance(about["config"].get(name), kind):
                raise UsageError(f"{path / 'config.json'} does not say '{name}'; put it back to read this run.")
        scores, metrics = (sorted(folder.rows(f"{log}.jsonl"), key=_frames) for log in ("scores", "metrics"))
        others = (folder.rows(f"{log}.jsonl") for log in ("eval", "processes"))
        return cls(path, about["config"], about["provenance"], scores, metrics, *others)

    @property
    def game(self) -> str:
        return str(self.config["game"])

    @property
    def method(self) -> str:
        return shown_method(self.config)

    @property
    def label(self) -> str:
        """Name of the method for tables and captions."""
        return method_and_rule(self.config)

    @property
    def frames(self) -> int:
        """Emulator frames trained so far."""
        self.need_metrics()
        return int(self.metrics[-1]["frames"])

    @property
    def training_seconds(self) -> float | None:
        """Seconds of training; None if no row has times."""
        spent = [value for row in self.metrics for name, value in row.items() if name.startswith("seconds/")]
        return round(sum(spent), 3) if spent else None

    def need_metrics(self) -> None:
        if not self.metrics:
            raise UsageError(f"{self.path} has no metrics yet; `megareward resume {self.path}` trains it first.")


RANDOM_PLAY = "random-play.json"
"""File in a run's folder with the score of random play, for games without a published one."""


def save_random_score(path: Path, score: float, games: int) -> None:
    """Keep the mean score of `games` games of random play beside a run, where reports look for it."""
    save_file(path / RANDOM_PLAY, (json.dumps({"score": score, "games": games}) + "\n").encode())


def random_score(path: Path) -> float | None:
    """The score that `save_random_score` wrote, or None."""
    source = path / RANDOM_PLAY
    if not source.is_file():
        return None
    try:
        score = json.loads(source.read_bytes())["score"]
    except (ValueError, TypeError, KeyError) as broken:
        raise UsageError(f"{source} is damaged ({broken}); remove it.") from broken
    if not is_number(score):
        raise UsageError(f"{source} has the score {score!r}; remove it.")
    return float(score)


def _frames(row: dict[str, Any]) -> float:
    """Sort key: readers need rows in the order of time, which a damaged line could break."""
    return float(row["frames"])


def shown_method(config: dict[str, Any]) -> str:
    """The method's name, with -ORACLE if control maps are true instead of learnt (a diagnosis, not a result), and
    +score if the game's score is a reward beside its own."""
    oracle = config.get("control", {}).get("oracle", {}).get("lags", 0) > 0
    return f"{config['method']}{'-ORACLE' if oracle else ''}{'+score' if config.get('with_score') else ''}"


def method_and_rule(config: dict[str, Any]) -> str:
    """`shown_method` with what is unusual: the rule for death (usual: the end of a game ends the return), noise, and a
    stabilised camera, as in 'rnd, not episodic, noise 0.3'. In runs of the first version each method had a rule of its
    own."""
    rule = bool(config.get("episodic", True))
    own = (config.get("reward") or {}).get("episodic", "rule")
    episodic = {"rule": rule, "yes": True, "no": False}.get(own, own)
    words = [shown_method(config)]
    if not episodic or not rule:
        words.append("episodic" if episodic else "not episodic")
    noise = config.get("noise") or {}
    if noise.get("std"):
        words.append(f"noise {noise['std']:g}")
    if noise.get("tv", "none") != "none":
        words.append(f"tv {noise['tv']}")
    if config.get("stabilise"):
        words.append("stabilised")
    return ", ".join(words)
