"""The case-study page: one HTML file that holds a whole recording, or two, and needs nothing else, not even a network.

How the recording travels
-------------------------
Steps are cut into chunks of 256. A chunk is deflated and written as base64 into a script element of its own, so the
page opens at once and unpacks only what is viewed. Inside a chunk, in this order:

  frames     each XOR the one before it: pixels that do not change become zeros. 50 to 400 bytes a step remain of 7056
  maps       direct, g and, where audited, their truth: one byte a cell, 255 being the map's own maximum
  relation   percent, [to, from]

The data of the time line (actions, scores, rewards) is small and is one block of its own.
"""

import base64
import html
import json
import zlib
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from megareward.errors import UsageError
from megareward.runs.durable import save_file
from megareward.viewer import palette
from megareward.viewer.drawing import ceiling
from megareward.viewer.figure import best_moment
from megareward.viewer.recording import Recording

CHUNK = 256
SCRIPTS = ("data.js", "panels.js", "lanes.js", "app.js")


def write_page(recording: Recording, path: Path, beside: Recording | None = None) -> Path:
    return save_file(path, page(recording, beside).encode())


def page(recording: Recording, beside: Recording | None = None) -> str:
    """The page as HTML. `beside`: a second recording of the same game, shown in step while both last."""
    if beside is not None and beside.game != recording.game:
        raise UsageError(
            f"One run plays {recording.game} and the other {beside.game}; games beside each other must be the same."
        )
    recordings = [recording] if beside is None else [recording, beside]
    methods = " beside ".join(one.method for one in recordings)
    static = resources.files("megareward.viewer").joinpath("static")
    parts = {
        "TITLE": html.escape(f"{recording.game}, {methods}: what is under control"),
        "STYLE": static.joinpath("page.css").read_text(encoding="utf-8"),
        "SCRIPT": "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS),
        "FACTS": json.dumps([facts(one) for one in recordings]).replace("<", "\\u003c"),
        "DATA": "\n".join(data for number, one in enumerate(recordings) for data in _elements(number, one)),
    }
    text = static.joinpath("page.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    return text


def map_names(recording: Recording) -> list[str]:
    learnt = ["direct", "g"] if recording.learnt else []
    return learnt + (["true_direct", "true_g"] if recording.truth else [])


def facts(recording: Recording) -> dict[str, Any]:
    """Facts that the page needs before it unpacks anything."""
    px_h, px_w = recording.frames.shape[1:]
    return {
        "game": recording.game,
        "method": recording.method,
        "seed": recording.seed,
        "trained": f"{recording.frames_trained:,}",
        "steps": len(recording),
        "chunk": CHUNK,
        "size": [px_h, px_w],
        "grid": [recording.H, recording.W],
        "actions": recording.action_names,
        "maps": {name: ceiling(_map(recording, name)) for name in map_names(recording)},
        "relation": recording.learnt is not None and recording.learnt.relation is not None,
        "score": recording.points is not None,
        "ramps": {"direct": palette.AMBER, "g": palette.TEAL},
        "best": best_moment(recording, min(40, len(recording))) if recording.learnt is not None else 0,
    }


def chunks(recording: Recording) -> list[bytes]:
    maps = [_quantised(_map(recording, name)) for name in map_names(recording)]
    packed = []
    for start in range(0, len(recording), CHUNK):
        at = slice(start, start + CHUNK)
        moved = recording.frames[at].copy()
        moved[1:] ^= recording.frames[at][:-1]
        blocks = [moved, *(m[at] for m in maps)]
        if recording.learnt is not None and recording.learnt.relation is not None:
            blocks.append(recording.learnt.relation[at])
        packed.append(zlib.compress(b"".join(block.tobytes() for block in blocks), 6))
    return packed


def traces(recording: Recording) -> bytes:
    """score, reward, sum of g (float32 each), then action and first (a byte each); T values of every one."""
    T, learnt = len(recording), recording.learnt
    reward = learnt.mega_reward if learnt else np.zeros(T, np.float32)
    control = learnt.g.sum(-1) if learnt else np.zeros(T, np.float32)
    floats = [recording.score, reward, control]
    numbers = [recording.actions.astype(np.uint8), recording.first.astype(np.uint8)]
    return zlib.compress(b"".join([a.astype("<f4").tobytes() for a in floats] + [a.tobytes() for a in numbers]), 6)


def _map(recording: Recording, name: str) -> np.ndarray:
    source = recording.truth if name.startswith("true_") else recording.learnt
    values: np.ndarray = getattr(source, name.removeprefix("true_"))
    return values


def _quantised(values: np.ndarray) -> np.ndarray:
    return (np.nan_to_num(values) / ceiling(values) * 255).round().clip(0, 255).astype(np.uint8)


def _elements(number: int, recording: Recording) -> list[str]:
    pieces = {f"chunk-{number}-{i}": chunk for i, chunk in enumerate(chunks(recording))}
    return [_element(name, data) for name, data in (pieces | {f"traces-{number}": traces(recording)}).items()]


def _element(name: str, data: bytes) -> str:
    return f'<script type="text/plain" id="{name}">{base64.b64encode(data).decode()}</script>'
