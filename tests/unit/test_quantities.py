"""Counts and times as people write and read them."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.errors import UsageError
from megareward.quantities import count, duration, parse_count, short_count


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


@settings(deadline=None)
@given(
    st.integers(0, 10**15)
    | st.builds(lambda n, size: n * size, st.integers(0, 10**6), st.sampled_from([10**3, 10**6, 10**9]))
)
def test_short_counts_are_exact(number):
    assert parse_count(short_count(number)) == number


@settings(deadline=None)
@given(st.text(max_size=12))
def test_any_text_is_a_count_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse_count(text) >= 0


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12_345, "12.3k"),
        (999_400, "999k"),
        (999_999, "1M"),
        (1_234_567, "1.23M"),
        (80_000_000, "80M"),
        (2_500_000_000, "2.5G"),
    ],
)
def test_counts_have_three_digits_and_a_letter(number, text):
    assert count(number) == text


@settings(deadline=None)
@given(st.floats(0, 9.99e11))
def test_no_count_is_ever_shown_with_an_exponent_and_all_are_right_to_half_a_percent(number):
    text = count(number)
    assert "e" not in text
    size = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    assert float(text.rstrip("kMG")) * size == pytest.approx(number, rel=0.0051, abs=0.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0m00s"), (59.6, "1m00s"), (61, "1m01s"), (3599, "59m59s"), (3700, "1h01m"), (float("inf"), "99h59m")],
)
def test_durations_are_minutes_and_seconds_or_hours_and_minutes(seconds, text):
    assert duration(seconds) == text
