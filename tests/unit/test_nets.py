"""On which devices low precision pays."""

import pytest
import torch

from megareward.nets import multiplies_bfloat16

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, True),
        ({"avx512_bf16": False, "amx_bf16": True}, True),
        ({"avx512_f": True, "avx512_bf16": False, "amx_bf16": False}, False),
        ({}, False),
    ],
)
def test_a_cpu_multiplies_bfloat16_if_it_has_an_instruction_for_it(monkeypatch, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert multiplies_bfloat16(CPU) is expected
    assert multiplies_bfloat16(torch.device("cuda"))


def test_where_torch_does_not_tell_a_cpu_stays_with_float32(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert multiplies_bfloat16(CPU) is False
