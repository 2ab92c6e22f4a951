"""JSON objects read strictly: every key expected, every value of the expected type.

Written by hand, without a schema library, because a file may come from anywhere: a duplicate
key, a NaN, a surplus key or a number in the place of a text is refused and named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import NoReturn

from gramian.errors import GramianError


def parse_json(data: bytes, where: str) -> object:
    """Parse JSON text; refuses duplicate keys, NaN and Infinity, naming ``where``."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise GramianError(f"{where}: the key {twice!r} appears twice")
        return result

    def constant(text: str) -> NoReturn:
        raise GramianError(f"{where}: {text} is not a finite number")

    try:
        result: object = json.loads(data, object_pairs_hook=unique, parse_constant=constant)
    except GramianError:
        raise
    except (ValueError, RecursionError) as error:
        raise GramianError(f"{where}: not valid JSON ({error})") from error
    return result


class Fields:
    """One JSON object; each read checks the type and marks the key as known.

    Args:
        value: what the JSON parser returned.
        where: the file and the place in it, for messages.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise GramianError(f"{where}: {_shown(value)}, expected an object")
        self._value: dict[str, object] = value
        self._known: set[str] = set()
        self.where = where

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def _take(self, key: str, expected: str) -> object:
        if key not in self._value:
            raise GramianError(f"{self.where}: {key!r} is missing, expected {expected}")
        self._known.add(key)
        return self._value[key]

    def _refuse(self, key: str, value: object, expected: str) -> NoReturn:
        raise GramianError(f"{self.where}: {key!r} is {_shown(value)}, expected {expected}")

    def text(self, key: str, choices: Iterable[str] = ()) -> str:
        """A string, one of ``choices`` where there are any."""
        allowed = tuple(choices)
        expected = f"one of {', '.join(allowed)}" if allowed else "a text"
        value = self._take(key, expected)
        if not isinstance(value, str) or (allowed and value not in allowed):
            self._refuse(key, value, expected)
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._take(key, "true or false")
        if not isinstance(value, bool):
            self._refuse(key, value, "true or false")
        return value

    def integer(self, key: str, low: int = 0) -> int:
        """An integer of at least ``low`` (and below 2^53, exact in every JSON reader)."""
        expected = f"an integer of at least {low}"
        value = self._take(key, expected)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**53:
            self._refuse(key, value, expected)
        return value

    def number(self, key: str, low: float = -math.inf) -> float:
        """A finite number of at least ``low``."""
        expected = "a finite number" + (f" of at least {low:g}" if low > -math.inf else "")
        value = self._take(key, expected)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(key, value, expected)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < low:
            self._refuse(key, value, expected)
        return number

    def optional_number(self, key: str) -> float | None:
        """A finite number or null."""
        value = self._take(key, "a finite number or null")
        return None if value is None else self.number(key)

    def fields(self, key: str) -> Fields:
        """A nested object."""
        return Fields(self._take(key, "an object"), f"{self.where}: {key}")

    def value(self, key: str) -> object:
        """Any value, unchecked."""
        return self._take(key, "a value")

    def items(self, key: str) -> list[object]:
        """A list, its elements unchecked."""
        value = self._take(key, "a list")
        if not isinstance(value, list):
            self._refuse(key, value, "a list")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        result = self.items(key)
        strings = tuple(item for item in result if isinstance(item, str))
        if len(strings) != len(result):
            self._refuse(key, result, "a list of texts")
        return strings

    def sizes(self, key: str) -> tuple[int, ...]:
        """A list of integers from 0 to 2^53."""
        result = self.items(key)
        sizes = tuple(i for i in result if isinstance(i, int) and not isinstance(i, bool))
        if len(sizes) != len(result) or any(not 0 <= size < 2**53 for size in sizes):
            self._refuse(key, result, "a list of sizes")
        return sizes

    def close(self) -> None:
        """Refuse the keys that nobody read."""
        surplus = sorted(set(self._value) - self._known)
        if surplus:
            raise GramianError(f"{self.where}: unknown key {surplus[0]!r}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
