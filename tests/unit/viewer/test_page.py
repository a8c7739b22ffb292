"""The page holds the whole recording, asks nobody for anything, and stays small."""

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest

from megareward.errors import UsageError
from megareward.viewer.page import CHUNK, page
from tests.unit.viewer.made import HW, PX_H, PX_W, H, T, W, made


def element(text: str, name: str) -> bytes:
    found = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', text)
    assert found is not None
    return zlib.decompress(base64.b64decode(found[1]))


def unpacked(text: str, n_maps: int, number: int = 0) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """frames, maps, relation of a recording of T steps: read back as the page's own script does it."""
    frames, maps, relation = [], [[] for _ in range(n_maps)], []
    for start in range(0, T, CHUNK):
        data, n = np.frombuffer(element(text, f"chunk-{number}-{start // CHUNK}"), np.uint8), min(CHUNK, T - start)
        moved, data = data[: n * PX_H * PX_W].reshape(n, PX_H, PX_W), data[n * PX_H * PX_W :]
        frames.append(np.bitwise_xor.accumulate(moved, axis=0))
        for found in maps:
            part, data = data[: n * HW].reshape(n, HW), data[n * HW :]
            found.append(part)
        relation.append(data.reshape(n, -1))
    return np.concatenate(frames), [np.concatenate(m) for m in maps], np.concatenate(relation)


def facts_of(text: str, number: int = 0) -> dict:
    found = re.search(r'id="facts">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])[number]


@pytest.mark.parametrize("truth", [False, True])
def test_every_frame_map_and_relation_comes_back(truth):
    recording = made(truth=truth)
    text = page(recording)
    frames, maps, relation = unpacked(text, 4 if truth else 2)
    assert np.array_equal(frames, recording.frames)
    expected = [recording.learnt.direct, recording.learnt.g]
    expected += [recording.truth.direct, recording.truth.g] if truth else []
    for got, wanted in zip(maps, expected, strict=True):
        assert np.abs(got / 255 - wanted).max() <= 0.5 / 255 + 1e-6
    assert np.array_equal(relation.reshape(T, HW, HW), recording.learnt.relation)
    facts = facts_of(text)
    assert list(facts["maps"]) == ["direct", "g"] + (["true_direct", "true_g"] if truth else [])
    assert (facts["grid"], facts["size"], facts["steps"]) == ([H, W], [PX_H, PX_W], T)


def test_the_traces_come_back():
    recording = made()
    data = element(page(recording), "traces-0")
    floats, numbers = np.frombuffer(data[: 12 * T], "<f4").reshape(3, T), np.frombuffer(data[12 * T :], np.uint8)
    assert np.array_equal(floats[0], recording.score)
    assert np.array_equal(floats[1], recording.learnt.mega_reward)
    assert np.allclose(floats[2], recording.learnt.g.sum(-1))
    assert np.array_equal(numbers.reshape(2, T), [recording.actions, recording.first])


def test_a_map_beyond_one_keeps_its_scale():
    recording = made()
    recording.learnt.g[:] *= 40
    text = page(recording)
    ceiling = facts_of(text)["maps"]["g"]
    assert ceiling == pytest.approx(recording.learnt.g.max())
    _, maps, _ = unpacked(text, 2)
    assert np.abs(maps[1] / 255 * ceiling - recording.learnt.g).max() <= 0.51 * ceiling / 255


def test_a_run_without_control_models_has_frames_and_score_only():
    text = page(made(learnt=False))
    facts = facts_of(text)
    assert facts["maps"] == {}
    assert not facts["relation"]
    assert facts["score"]
    frames, _, rest = unpacked(text, 0)
    assert np.array_equal(frames, made(learnt=False).frames)
    assert rest.size == 0


def test_an_oracle_has_maps_and_no_relation():
    recording = made()
    recording = replace(recording, learnt=replace(recording.learnt, relation=None))
    text = page(recording)
    assert list(facts_of(text)["maps"]) == ["direct", "g"]
    assert not facts_of(text)["relation"]
    _, maps, rest = unpacked(text, 2)
    assert np.abs(maps[1] / 255 - recording.learnt.g).max() <= 0.5 / 255 + 1e-6
    assert rest.size == 0


def test_the_page_names_no_other_place():
    text = re.sub(r'<script type="text/plain".*?</script>', "", page(made(truth=True)))
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)
    assert "default-src 'none'" in text
    assert "<!--" not in text


def test_a_strange_name_cannot_leave_its_place():
    text = page(made(method="</script><b>"))
    assert "</script><b>" not in text
    assert facts_of(text)["method"] == "</script><b>"


def test_two_recordings_share_a_page_and_keep_their_own_data():
    one, other = made(), made(learnt=False, method="rnd", seed=9)
    other.frames[:] ^= 5
    text = page(one, other)
    assert "<title>mini-pong, mega beside rnd: what is under control</title>" in text
    for number, recording, n_maps in ((0, one, 2), (1, other, 0)):
        assert np.array_equal(unpacked(text, n_maps, number)[0], recording.frames)
        assert (facts_of(text, number)["method"], facts_of(text, number)["seed"]) == (recording.method, recording.seed)


def test_different_games_are_not_put_beside_each_other():
    with pytest.raises(UsageError, match="One run plays mini-pong and the other mini-demon"):
        page(made(), made(game="mini-demon"))
