"""The live page: what it serves while a run trains, and to whom."""

import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from megareward.cli import main
from megareward.training.run import resume, start
from megareward.viewer.live import Live, serve
from tests.seams.small_runs import QUIET, N, T, small


@pytest.fixture
def served(tmp_path):
    """A run that was stopped after its first iteration, and its server."""
    run = start(small("mega"), tmp_path / "run", minutes=1e-9, **QUIET).path
    live = Live(run, steps=20)
    server = serve(live)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield run, live, server.server_address
    server.shutdown()
    server.server_close()


def get(address: tuple[str, int], path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*address, timeout=30)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_follows_the_run(served):
    run, live, address = served
    assert address[0] == "127.0.0.1"
    assert "state.json" in get(address, "/")[1]
    live.look()
    before = json.loads(get(address, "/state.json")[1])
    assert before["title"] == "mini-pong, mega, seed 5"
    assert before["words"].startswith(f"{N * T} of {4 * N * T} frames")
    assert "mini-pong, mega: what is under control" in get(address, "/game.html")[1]
    resume(run, **QUIET)
    live.look()
    after = json.loads(get(address, "/state.json?again")[1])
    assert after["share"] == 1.0
    assert after["game"] > before["game"]
    assert "control/g" in after["curves"]


def test_a_browser_that_leaves_early_is_no_trouble(served, capsys):
    """A page that is loaded again drops its requests; the terminal belongs to the run."""
    _, live, address = served
    live.game = "x" * 20_000_000  # more than waits between two programs
    with socket.create_connection(address, timeout=30) as leaving:
        leaving.sendall(f"GET /game.html HTTP/1.0\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode())
        assert leaving.recv(100).startswith(b"HTTP/1.0 200")
        leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # gone at once
    while any("process_request_thread" in thread.name for thread in threading.enumerate()):
        time.sleep(0.01)
    assert capsys.readouterr().err == ""
    assert get(address, "/state.json")[0] == 200


def test_only_this_machine_is_answered_and_only_these_pages(served):
    _, _, address = served
    assert get(address, "/state.json", host="evil.example")[0] == 403
    assert get(address, "/state.json", host=f"localhost:{address[1]}")[0] == 200
    assert get(address, "/../config.json")[0] == 404


def test_a_checkpoint_that_cannot_be_shown_is_told(served):
    run, live, address = served
    for tensors in run.glob("checkpoints/*/tensors.safetensors"):
        tensors.write_bytes(b"nonsense")
    live.look()
    assert "could not be shown" in json.loads(get(address, "/state.json")[1])["trouble"]


def test_the_command_says_where_it_is_and_ends_with_ctrl_c(served):
    run, _, _ = served
    words = [sys.executable, "-m", "megareward.cli", "watch", str(run), "--live"]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also where the tests run in the background
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heeds)
    line = process.stdout.readline()
    port = int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1])
    assert get(("127.0.0.1", port), "/state.json")[0] == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130


def test_a_port_in_use_is_named(served, capsys):
    run, _, address = served
    assert main(["watch", str(run), "--live", "--port", str(address[1])]) == 2
    assert f"--port is {address[1]}, which cannot be used" in capsys.readouterr().err
