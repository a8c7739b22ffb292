"""The benchmark compares like with like, and survives a variant that fails."""

import json
import subprocess
import sys

import pytest
import torch

from megareward.bench import control as bench
from megareward.bench import control_variants as variants
from megareward.cli import main
from megareward.control.config import RtmConfig
from megareward.control.grid import Grid
from megareward.control.rtm import RTM
from megareward.errors import UsageError

GRID, N, A = Grid(2, 3, 42, 36), 5, 7


@pytest.mark.parametrize("phi_pairs", ["all", "attended"])
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_the_plain_form_gives_the_same_numbers_and_gradients_as_ours(phi_pairs, training):
    torch.manual_seed(0)
    paper = {"loss": "blend", "source_loss": 0.0, "targets": 1.0, "gamma_sees_target": False}
    config = RtmConfig(attention="sparsemax", channels=2, features=9, gamma_features=11, phi_pairs=phi_pairs, **paper)
    model = RTM(GRID, config, A).double().train(training)
    with torch.no_grad():
        model.gamma.head[-1].weight *= 20 if training else 2000  # so that some pairs get nothing
    source = torch.randn(N, 6, 21 * 12 * 4, dtype=torch.float64)
    target, actions = torch.randn(N, 6, 21 * 12, dtype=torch.float64), torch.arange(N)
    results = []
    for form in (RTM, variants.PlainRTM):
        model.__class__ = form
        output = model(source, actions)
        loss = model.losses(output, target, 2.0)["transition"]
        results.append(
            [model.predict(output, 2.0), output.relation, *torch.autograd.grad(loss, list(model.parameters()))]
        )
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-8, atol=1e-10)
    assert (results[0][1] == 0).any()


def test_sharpening_reaches_the_share_it_is_asked_for():
    variant = bench.VARIANTS["once-attended-quarter"]
    models, batch = bench.build(variant, torch.device("cpu")), bench.frames_like_a_game(2, torch.device("cpu"))
    models.normaliser.observe(batch.now)
    models.modules.train()
    bench.sharpen(models, batch, 0.25)
    assert bench.attended_share(models, batch) == pytest.approx(0.25, abs=0.08)


def test_a_failing_variant_is_a_row_and_not_the_end():
    def fails(*_: object) -> dict[str, object]:
        raise RuntimeError("no such kernel")

    row = bench.guarded(fails, "dense-fused", 8)
    assert row["error"] == "RuntimeError: no such kernel"
    assert "no such kernel" in bench.line(row)


def test_an_unknown_variant_is_refused_with_a_hint():
    with pytest.raises(UsageError, match=r"no variant dens\. Did you mean dense"):
        bench.bench_control(variants=("dens",))


@pytest.mark.slow
def test_the_command_writes_its_rows_as_json(tmp_path):
    words = "bench control --batch 2 --envs 2 --seconds 0.1 --variants plain,once-attended --json"
    assert main([*words.split(), str(tmp_path / "out.json")]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(r["what"], r["variant"]) for r in rows[-2:]] == [("train", "plain"), ("train", "once-attended")]
    assert all(r["us_per_transition"] > 0 for r in rows)


def test_settings_can_be_read_without_torch():
    code = "import sys, megareward.control.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
