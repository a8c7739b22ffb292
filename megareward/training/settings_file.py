"""Settings as a text file to write, compare and keep: one `name: value` per line, with the names of the options.

    method: mega
    game: breakout
    ppo.learning_rate: 0.00025

Such a file is valid YAML, but only this subset of YAML is read here. Free of torch.
"""

import json
from pathlib import Path
from typing import Any

from megareward.errors import UsageError, suggestion
from megareward.runs.durable import save_file
from megareward.training.config import TrainConfig, flat, from_dict, to_dict


def write_settings(config: TrainConfig, path: Path) -> Path:
    """Every setting of a run, so that the file means the same when defaults change."""
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in flat(to_dict(config)).items()]
    return save_file(path, "".join(lines).encode())


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a file by dotted name. A value is JSON or plain text; `#` begins a comment."""
    try:
        text = path.read_text()
    except OSError as why:
        raise UsageError(f"--config is {path}, which cannot be read ({why.strerror}).") from why
    except UnicodeDecodeError:
        raise UsageError(f"--config is {path}, which is no text; write one `name: value` per line.") from None
    found: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split(" #")[0].strip()
        if not line or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not value or not name:
            raise UsageError(f"{path}, line {number} is {line!r}; write `name: value`, as in `ppo.clip: 0.1`.")
        name = name.replace("-", "_")
        if name in found:
            raise UsageError(f"{path}, line {number} sets '{name}' a second time; keep one of the two.")
        found[name] = plain_value(value)
    return found


def plain_value(text: str) -> Any:
    """The value of a JSON text, such as `0.1`, `true`, `[1, 2]` or `"a: b"`; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")


def with_settings(config: TrainConfig, settings: dict[str, Any], source: Path) -> TrainConfig:
    """The config with these settings replaced; they are given by dotted name."""
    data = to_dict(config)
    known = flat(data)
    for name, value in settings.items():
        if name not in known:
            raise UsageError(f"{source} sets '{name}', which this run does not have.{suggestion(name, known)}")
        *groups, last = name.split(".")
        place = data
        for group in groups:
            place = place[group]
        place[last] = float(value) if isinstance(known[name], float) and type(value) is int else value
    return from_dict(data, str(source))
