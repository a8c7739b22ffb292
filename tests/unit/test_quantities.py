"""Counts as people write them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from megareward.errors import UsageError
from megareward.quantities import parse_count, short_count


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200000", 200_000),
        ("200k", 200_000),
        ("80M", 80_000_000),
        ("80m", 80_000_000),
        (" 80 M ", 80_000_000),
        ("1.5k", 1500),
        ("0.001M", 1000),
        ("1e6", 1_000_000),
        ("2_000", 2000),
        ("2,000,000", 2_000_000),
        ("2G", 2_000_000_000),
        ("2b", 2_000_000_000),
        ("0", 0),
        ("2.3M", 2_300_000),
        ("2.01k", 2010),  # in floating point 2.01 * 1000 is a little less
    ],
)
def test_common_spellings_are_understood(text, number):
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "abc", "-5", "k", "1.5", "0.0001k", "nan", "inf", "1e400", "10T", "1 2", "1e-3"])
def test_what_is_no_count_is_refused_by_name(text):
    with pytest.raises(UsageError, match=f"'{text}'"):
        parse_count(text)


@given(
    st.integers(0, 10**15)
    | st.builds(lambda n, size: n * size, st.integers(0, 10**6), st.sampled_from([10**3, 10**6, 10**9]))
)
def test_short_counts_are_exact(number):
    assert parse_count(short_count(number)) == number


@given(st.text(max_size=12))
def test_any_text_is_a_count_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse_count(text) >= 0
