"""The truth of an audit lies beside the learnt maps, frame by frame."""

import numpy as np
import pytest
import torch

from megareward.audit.truth import load_truth
from megareward.cli import main
from megareward.errors import UsageError
from megareward.training.run import start
from megareward.viewer.audited import record_audit
from tests.seams.small_runs import QUIET, small

CPU = torch.device("cpu")


def test_every_episode_of_the_audit_is_shown_with_its_truth(tmp_path):
    run = start(small("mega"), tmp_path / "run", **QUIET).path
    with pytest.raises(
        UsageError, match=r"audit-random\.json does not exist; `megareward audit .* finds the truth first"
    ):
        record_audit(run, "random", device=CPU)
    assert main(["audit", str(run), "--episodes", "2", "--frames", "12", "--lags", "5", "--device", "cpu"]) == 0
    [kept] = (tmp_path / "audit-truth").iterdir()
    recording, truth = record_audit(run, "random", device=CPU), load_truth(kept)
    lengths = [len(episode.frames) for episode in truth.episodes]
    assert list(np.flatnonzero(recording.first)) == [0, lengths[0]]
    assert len(recording) == sum(lengths)
    start_of_second = truth.episodes[1]
    assert np.array_equal(recording.frames[lengths[0] :], start_of_second.frames.numpy())
    assert np.array_equal(recording.truth.direct[lengths[0] :], start_of_second.direct.float().numpy())
    assert np.array_equal(recording.actions[lengths[0] + 1 :], start_of_second.actions.numpy())
    assert 0 < recording.truth.g.max() <= 1
    assert recording.points is None
    assert recording.learnt.relation.shape == (len(recording), 16, 16)
