"""What embedding costs and how fast it goes, as people write it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gramian.errors import GramianError

_PER = {"1k": 1e3, "k": 1e3, "1m": 1e6, "m": 1e6, "million": 1e6, "1million": 1e6}
_PRICE = re.compile(
    r"([^\d\s.+-]*)\s*(\d+(?:\.\d+)?(?:e-?\d+)?)\s*([^\d\s/.]*)\s*(?:/|per)\s*([\da-z]+)"
    r"(?:\s*tokens?)?",
    re.I,
)
_RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*([km]?)\s*(texts?|tokens?)\s*(?:/|per)\s*(s|sec|second|min|minute|h|hour)",
    re.I,
)


@dataclass(frozen=True)
class Price:
    """Money for tokens.

    Raises
    ------
    GramianError : a negative price.
    """

    per_token: float
    currency: str = ""

    def __post_init__(self) -> None:
        if not self.per_token >= 0 or math.isinf(self.per_token):
            raise GramianError(f"price is {self.per_token} per token, expected at least 0")

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read ``0.02/M``, ``$0.02 per million``, ``0.0001 EUR/1k``; of tokens, unit required.

        Raises
        ------
        GramianError : no number, or no unit.
        """
        match = _PRICE.fullmatch(text.strip())
        unit = None if match is None else _PER.get(match[4].lower())
        if match is None or unit is None:
            raise GramianError(
                f"price {text!r}: expected an amount per 1k or per million (M) tokens, such as "
                "0.02/M or $0.0001/1k"
            )
        return cls(float(match[2]) / unit, match[1] or match[3])


@dataclass(frozen=True)
class Rate:
    """How fast texts are embedded.

    Raises
    ------
    GramianError : not above 0, or of other units than texts and tokens.
    """

    per_minute: float
    unit: str
    """``texts`` or ``tokens``."""

    def __post_init__(self) -> None:
        if self.unit not in ("texts", "tokens"):
            raise GramianError(f"rate counts {self.unit!r}, expected texts or tokens")
        if not self.per_minute > 0 or math.isinf(self.per_minute):
            raise GramianError(f"rate is {self.per_minute} {self.unit}/min, expected above 0")

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read ``3000 texts/min``, ``1M tokens/min``, ``50 texts per second``; unit required.

        Raises
        ------
        GramianError : no number, or no unit.
        """
        match = _RATE.fullmatch(text.strip())
        if match is None:
            raise GramianError(
                f"rate {text!r}: expected texts or tokens per second, minute or hour, such as "
                "'3000 texts/min' or '1M tokens/min'"
            )
        amount = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()]
        minutes = {"s": 1 / 60, "m": 1.0, "h": 60.0}[match[4][0].lower()]
        return cls(amount / minutes, "tokens" if match[3].lower().startswith("tok") else "texts")

    def hours(self, texts: float, tokens: float) -> float:
        """Time for so many texts of so many tokens in all."""
        return (tokens if self.unit == "tokens" else texts) / self.per_minute / 60
