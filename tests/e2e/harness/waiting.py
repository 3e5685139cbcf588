"""Waiting for a condition, never for a time."""

import time
from typing import Callable, TypeVar

T = TypeVar("T")


def eventually(what: str, read: Callable[[], T], is_true: Callable[[T], object] = bool, *, within: float = 90) -> T:
    """The first value of `read()` for which `is_true` holds. AssertionError with the last value if none comes in time.

    The deadlines are generous: they tell a hang from a slow machine. A test that claims a speed measures it.
    """
    deadline = time.monotonic() + within
    while True:
        value = read()
        if is_true(value):
            return value
        assert time.monotonic() < deadline, f"not within {within:.0f} s: {what}; last seen: {_short(value)}"
        time.sleep(0.15)


def always(what: str, read: Callable[[], T], is_true: Callable[[T], object] = bool, *, for_seconds: float) -> None:
    """Raises AssertionError if `is_true` does not hold at some moment during the given time."""
    deadline = time.monotonic() + for_seconds
    while time.monotonic() < deadline:
        value = read()
        assert is_true(value), f"ceased: {what}; seen: {_short(value)}"
        time.sleep(0.15)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 3000 else text[:1500] + " … " + text[-1500:]
