"""Numbers as people write and read them: 80M, 500k, 2_000, 1h02m."""

import re
from decimal import Decimal

from megareward.errors import UsageError

_SIZES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_LARGEST = 10**15


def parse_count(text: str) -> int:
    """'80M' -> 80000000; also '1.5k', '1e6', '2_000', '2,000'."""
    plain = text.strip().lower().replace("_", "").replace(",", "")
    match = re.fullmatch(r"(\d+(?:\.\d*)?(?:e\d+)?)\s*([kmgb]?)", plain)
    if match is None:
        raise UsageError(f"'{text}' is no count; write it as 200000, 200k or 80M.")
    number = Decimal(match[1]) * _SIZES[match[2]]  # exact, where a float would round
    if number > _LARGEST:
        raise UsageError(f"'{text}' is too large a count; the largest is 1e15.")
    if number != int(number):
        raise UsageError(f"'{text}' is not a whole number.")
    return int(number)


def short_count(number: int) -> str:
    """80000000 -> '80M'; exact, so that it can be parsed back."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number and number % size == 0:
            return f"{number // size}{letter}"
    return str(number)


def count(number: float) -> str:
    """1234567 -> '1.23M'."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # what would be rounded to 1000 of a size is 1 of the next
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """3700 -> '1h02m'."""
    minutes, seconds = divmod(round(min(seconds, 359_999)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
