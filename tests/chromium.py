"""A real browser for tests: headless Chromium, spoken to through its DevTools protocol over a pipe.

Nothing is installed or downloaded: a Chromium or Chrome that is on the machine is used, and `find_chromium` says None
where there is none.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 30.0


def find_chromium() -> str | None:
    """The browser that $CHROMIUM names, or the first on the path."""
    wanted = os.environ.get("CHROMIUM")
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. Console errors, exceptions and requests that leave the disk are collected in `complaints`."""

    def __init__(self, program: str, profile: Path, width: int = 1280, height: int = 800, phone: bool = False) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()

        def wire() -> None:  # Chromium reads commands from descriptor 3 and answers on 4
            far_commands, far_answers = os.dup(commands), os.dup(answers)
            os.dup2(far_commands, 3)
            os.dup2(far_answers, 4)

        switches = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            [program, *switches],
            pass_fds=(3, 4, commands, answers),
            preexec_fn=wire,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        os.set_blocking(self._read, False)
        self._rest, self._number, self._session = b"", 0, None
        self._answers: dict[int, dict[str, Any]] = {}
        self.complaints: list[str] = []
        tabs = self.send("Target.getTargets")["targetInfos"]
        tab = next(tab["targetId"] for tab in tabs if tab["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height, phone)

    # Talking ---------------------------------------------------------------------------------------------------------

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while self._number not in self._answers:
            assert time.monotonic() < deadline, f"Chromium does not answer {method}"
            self._listen()
        answer = self._answers.pop(self._number)
        assert "error" not in answer, f"{method}: {answer.get('error')}"
        result: dict[str, Any] = answer["result"]
        return result

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._rest += os.read(self._read, 1 << 20)
        *messages, self._rest = self._rest.split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self._notice(message["method"], message["params"])
        if not messages:
            time.sleep(0.002)

    def _notice(self, event: str, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.complaints.append(f"request to {url}")

    # Doing -----------------------------------------------------------------------------------------------------------

    def resize(self, width: int, height: int, phone: bool = False) -> None:
        sharp = 2 if phone else 1
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=sharp, mobile=phone
        )

    def open(self, page: Path, anchor: str = "") -> None:
        self.send("Page.navigate", url=page.resolve().as_uri() + anchor)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives; promises are waited for."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Until the expression becomes true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"never came true: {expression}; complaints: {self.complaints}"
            time.sleep(0.01)
        return value

    def key(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def place(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """A point of an element, after scrolling to it."""
        box = self.value(
            "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            f" return [b.x, b.y, b.width, b.height]; }})(document.querySelector({json.dumps(selector)}))"
        )
        return box[0] + across * box[2], box[1] + down * box[3]

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        self.mouse("mouseMoved", *self.place(selector, across, down))

    def drag(self, selector: str, start: float, end: float) -> None:
        """Along the middle of an element, from one share of its width to another."""
        x, y = self.place(selector, start)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for share in (0.5, 1.0):
            there, _ = self.place(selector, start + share * (end - start))
            self.mouse("mouseMoved", there, y, button="left", buttons=1)
        self.mouse("mouseReleased", there, y, button="left", clickCount=1)

    def tap(self, selector: str, across: float = 0.5, down: float = 0.5) -> None:
        x, y = self.place(selector, across, down)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path: Path, whole: bool = False) -> None:
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self._session = None
            self.send("Browser.close")
        self.process.wait(timeout=PATIENCE)
        os.close(self._read)
        os.close(self._write)


@contextlib.contextmanager
def browsing(profile: Path, **settings: Any) -> Iterator[Browser]:
    program = find_chromium()
    assert program is not None
    browser = Browser(program, profile, **settings)
    try:
        yield browser
    finally:
        browser.close()
