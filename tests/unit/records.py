"""Records for tests, without the runs they would be of."""

from typing import Any

from megareward.runs.record import Record
from megareward.training.config import TrainConfig, to_dict


def make_record(
    game: str = "pong", method: str = "mega", frames: int = 10_000_000, seed: int = 0, **more: Any
) -> Record:
    """`planned` frames are those trained unless given."""
    planned = more.pop("planned", frames)
    values: dict[str, Any] = {
        "finished": frames >= planned,
        "score": -15.5,
        "episodes_in_score": 50,
        "episodes": 60,
        "curve": [[frames // 2, -20.0], [frames, -15.5]],
        "config": to_dict(TrainConfig(method, game, frames=planned, seed=seed)),
        "provenance": {},
    }
    return Record(game=game, method=method, frames=frames, seed=seed, **{**values, **more})


def record_of_config(config: dict[str, Any], **more: Any) -> Record:
    about = {name: config[name] for name in ("game", "method", "frames", "seed")}
    return make_record(**about, **{"config": config, **more})
