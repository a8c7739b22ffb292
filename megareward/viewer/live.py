"""A run while it trains, as a page of this machine only: its curves, and its newest game with the control maps.

The server only reads the run's folder, so it can be started and stopped at any time, by the command that trains or by
another one; a reloaded page shows the same. It listens on 127.0.0.1 and answers only requests for that host, so that
web pages cannot read it.
"""

import contextlib
import html
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from megareward.errors import UsageError
from megareward.quantities import count
from megareward.runs.checkpoint import list_checkpoints
from megareward.runs.folder import RunFolder
from megareward.runs.logs import RunLogs
from megareward.viewer.charts import NARROW, Line, line_chart, spark_chart
from megareward.viewer.page import page
from megareward.viewer.recording import record_run
from megareward.viewer.runs import Run, group_runs, score_line

STEPS = 300
"""Steps of the newest game, recorded with the newest checkpoint."""
CURVES = ("reward/", "control/g", "loss/entropy", "adm/accuracy")
"""Prefixes of the metrics that are drawn as small curves."""


class Live:
    """The content of the page, updated when the folder has changed."""

    def __init__(self, path: Path, steps: int = STEPS, device: torch.device | None = None) -> None:
        self.folder, self.steps, self.device = RunFolder.open(path), steps, device or torch.device("cpu")
        self.game, self.version, self.trouble = "", "", ""
        self._over = threading.Event()

    def state(self) -> dict[str, Any]:
        """The state that the page requests every few seconds."""
        logs = RunLogs.read(self.folder.path)
        done, total = (int(logs.metrics[-1]["frames"]) if logs.metrics else 0), int(logs.config["frames"])
        words = f"{count(done)} of {count(total)} frames" if done < total else f"over after {count(done)} frames"
        if logs.metrics and "score" in logs.metrics[-1]:
            words += f", score {logs.metrics[-1]['score']:.4g} over the last 50 games"
        return {
            "title": f"{logs.game}, {logs.label}, seed {logs.config['seed']}",
            "words": words,
            "share": min(done / total, 1.0),
            "curves": self.curves(logs),
            "game": self.version,
            "trouble": self.trouble,
        }

    def curves(self, logs: RunLogs) -> str:
        """Score large, some metrics small, as SVG."""
        parts = []
        line = score_line(group_runs([Run.read(self.folder.path)])[0]) if logs.metrics else None
        if line is not None:
            chart = line_chart([line], label="score against frames", width=NARROW, height=200)
            caption = f"score, mean of the last 50 games <b>{line.y[-1]:.4g}</b>"
            parts.append(f'<figure class="score"><figcaption>{caption}</figcaption>{chart}</figure>')
        names = dict.fromkeys(name for row in logs.metrics for name in row if name.startswith(CURVES))
        for name in names:
            rows = [(row["frames"], row[name]) for row in logs.metrics if name in row]
            if len(rows) > 1:
                x, y = np.array(rows[:: max(1, len(rows) // 120)], dtype=float).T
                chart = spark_chart([(0, Line(name, x, y))], label=f"{name} against frames")
                caption = f"{html.escape(name)} <b>{rows[-1][1]:.3g}</b>"
                parts.append(f"<figure><figcaption>{caption}</figcaption>{chart}</figure>")
        return "".join(parts)

    def follow(self, every: float = 5.0) -> None:
        """Record a game whenever there is a newer checkpoint, until `stop`."""
        while not self._over.is_set():
            self.look()
            self._over.wait(every)

    def look(self) -> None:
        """Record a game if there is a newer checkpoint than the one shown."""
        saved = list_checkpoints(self.folder.checkpoints)
        if not saved or saved[-1].name == self.version:
            return
        try:
            recording = record_run(
                self.folder.path, self.steps, device=self.device, warn=lambda text: None, progress=self.give_way
            )
            self.game, self.version, self.trouble = page(recording), saved[-1].name, ""
        except (OSError, ValueError, RuntimeError) as why:  # the run may just have replaced it; the page says so
            self.trouble = f"The newest checkpoint could not be shown: {why}"

    def give_way(self, _done: int, _of: int) -> None:
        if self._over.is_set():
            raise RuntimeError("the page is closed")

    def stop(self) -> None:
        self._over.set()


def handler_of(live: Live, names: set[str]) -> type[BaseHTTPRequestHandler]:
    """A request handler that answers only requests for the hosts `names`."""

    def frame() -> str:
        return resources.files("megareward.viewer").joinpath("static/live.html").read_text(encoding="utf-8")

    pages: dict[str, tuple[str, Callable[[], str]]] = {
        "/": ("text/html", frame),
        "/state.json": ("application/json", lambda: json.dumps(live.state())),
        "/game.html": ("text/html", lambda: live.game),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, make = pages.get(self.path.split("?")[0], ("text/plain", None))
            status, text = (404, "There is no such page.") if make is None else (200, make())
            if self.headers.get("Host", "").lower() not in names:
                status, kind, text = 403, "text/plain", "Only for this machine."
            with contextlib.suppress(ConnectionError):  # a page that is being reloaded drops the connection
                self.answer(status, kind, text.encode())

        def answer(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing, since the run uses the terminal."""

    return Handler


def serve(live: Live, port: int = 0) -> ThreadingHTTPServer:
    """A server that is bound but not running yet. Port 0: any free one."""
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
    except OSError as why:
        raise UsageError(f"--port is {port}, which cannot be used ({why.strerror}); choose another or 0.") from why
    own = server.server_address[1]
    server.RequestHandlerClass = handler_of(live, {f"127.0.0.1:{own}", f"localhost:{own}"})
    server.daemon_threads = True
    return server


def run_server(path: Path, port: int, say: Callable[[str], None], steps: int = STEPS) -> None:
    """Serve until Ctrl-C."""
    live = Live(path, steps)
    server = serve(live, port)
    say(f"Live at http://127.0.0.1:{server.server_address[1]} (this machine only; Ctrl-C ends it).")
    watcher = threading.Thread(target=live.follow, daemon=True)
    watcher.start()
    try:
        server.serve_forever(poll_interval=0.2)
    finally:
        live.stop()
        server.server_close()
        watcher.join()  # torch must not be at work while the interpreter ends
