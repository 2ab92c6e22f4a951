"""What a set of statistics is of; two sets may be added only when these agree."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gramian.errors import GramianError
from gramian.moments.fields import Fields
from gramian.moments.folds import FOLDS, Shares

PRECISIONS = ("float32", "float64")
ALIGNMENTS = ("tokens", "characters", "documents")


@dataclass(frozen=True)
class RowRule:
    """Which rows are sinks, accumulated apart from the others.

    Raises:
        GramianError: a factor or a threshold that is not a positive finite number.
    """

    first: bool = True
    """The first position of each sequence is a sink."""
    factor: float | None = 10.0
    """Rows longer than this many pilot medians at any residual site are sinks; None: no limit."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """The lengths that the pilot fixed, by residual site."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", dict(self.thresholds))
        for name, value in [("factor", self.factor), *self.thresholds.items()]:
            if value is not None and not (math.isfinite(value) and value > 0):
                raise GramianError(f"row rule: {name} is {value!r}, expected a number above 0")

    def to_json(self) -> dict[str, object]:
        """Every field, as JSON values."""
        thresholds = {site: float(value) for site, value in self.thresholds.items()}
        return {"first": self.first, "factor": self.factor, "thresholds": thresholds}

    @classmethod
    def read(cls, rows: Fields) -> RowRule:
        """Read what :meth:`to_json` wrote."""
        thresholds = rows.fields("thresholds")
        rule = cls(
            first=rows.flag("first"),
            factor=rows.optional_number("factor"),
            thresholds={site: thresholds.number(site) for site in thresholds},
        )
        rows.close()
        return rule


@dataclass(frozen=True)
class Partner:
    """The second network of a joint collection, and how its rows were paired with the first's.

    Sites of the first network are then named ``a:<site>``, those of this one ``b:<site>``.

    Raises:
        GramianError: an unknown alignment.
    """

    model: str
    weights: str
    tensors: Mapping[str, str]
    tokenizer: str
    template: str
    bos: bool
    rows: RowRule
    align: str
    """``"tokens"``: both networks read the same token ids, a row is a position of both;
    ``"characters"``: a row is the two tokens that end at the same character of the same text,
    of windows that start at the same one; ``"documents"``: a row is the mean over the tokens of
    a document."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", dict(self.tensors))
        if self.align not in ALIGNMENTS:
            raise GramianError(
                f"recipe: align is {self.align!r}, expected one of {', '.join(ALIGNMENTS)}"
            )

    def to_json(self) -> dict[str, object]:
        """Every field, as JSON values."""
        return {
            **_network(self),
            "bos": self.bos,
            "rows": self.rows.to_json(),
            "align": self.align,
        }

    @classmethod
    def read(cls, entry: Fields) -> Partner:
        """Read what :meth:`to_json` wrote."""
        partner = cls(
            **_read_network(entry),
            bos=entry.flag("bos"),
            rows=RowRule.read(entry.fields("rows")),
            align=entry.text("align", ALIGNMENTS),
        )
        entry.close()
        return partner


@dataclass(frozen=True)
class Recipe:
    """The model, the text treatment and the row rule behind a set of statistics.

    Two sets can be added only if their recipes are equal: :meth:`difference` names what is not.
    """

    model: str
    """Where the model came from: a hub id, a folder name or ``bundled:...``."""
    weights: str
    """A digest over all of ``tensors``."""
    tensors: Mapping[str, str]
    """A fingerprint per weight tensor, by name."""
    tokenizer: str
    """A digest of the tokenizer."""
    template: str
    """``"none"``, or a digest of the chat template that was applied."""
    length: int
    """Tokens in a window."""
    bos: bool
    """Whether each window starts with the token for the beginning of a sequence."""
    rows: RowRule = field(default_factory=RowRule)
    shares: Shares = field(default_factory=Shares)
    precision: str = "float32"
    """The precision in which products of rows were formed; sums are always float64."""
    partner: Partner | None = None
    """The second network of a joint collection."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", dict(self.tensors))
        if self.precision not in PRECISIONS:
            raise GramianError(
                f"recipe: precision is {self.precision!r}, expected one of {', '.join(PRECISIONS)}"
            )
        if self.length < 1:
            raise GramianError(f"recipe: length is {self.length!r}, expected at least 1 token")

    def to_json(self) -> dict[str, object]:
        """Every field, as JSON values; :meth:`from_json` gives the recipe back."""
        second = {} if self.partner is None else {"partner": self.partner.to_json()}
        return {
            **_network(self),
            "length": self.length,
            "bos": self.bos,
            "rows": self.rows.to_json(),
            "shares": self.shares.to_json(),
            "precision": self.precision,
            **second,
        }

    @property
    def format(self) -> int:
        """The least version of the folder format that can state this recipe."""
        return 1 if self.partner is None else 2

    @classmethod
    def from_json(cls, value: object, where: str = "recipe") -> Recipe:
        """Read what :meth:`to_json` wrote.

        Raises:
            GramianError: a key is missing or unknown, or a value has another type.
        """
        top = Fields(value, where)
        shares = top.fields("shares")
        recipe = cls(
            **_read_network(top),
            length=top.integer("length", low=1),
            bos=top.flag("bos"),
            rows=RowRule.read(top.fields("rows")),
            shares=Shares(**{fold: shares.number(fold) for fold in FOLDS}),
            precision=top.text("precision", PRECISIONS),
            partner=Partner.read(top.fields("partner")) if "partner" in top else None,
        )
        for part in (top, shares):
            part.close()
        return recipe

    def difference(self, other: Recipe) -> list[str]:
        """One line for each field that is not equal, with both values; empty when equal."""
        return _difference(self, other)


def _network(stated: Recipe | Partner) -> dict[str, object]:
    """What a recipe and a partner both say of their network, as JSON values."""
    return {
        "model": stated.model,
        "weights": stated.weights,
        "tensors": dict(stated.tensors),
        "tokenizer": stated.tokenizer,
        "template": stated.template,
    }


def _read_network(entry: Fields) -> dict[str, Any]:
    """Read what :func:`_network` wrote."""
    tensors = entry.fields("tensors")
    names = ("model", "weights", "tokenizer", "template")
    return {
        **{name: entry.text(name) for name in names},
        "tensors": {name: tensors.text(name) for name in tensors},
    }


def _difference(a: Recipe | Partner, b: Recipe | Partner, prefix: str = "") -> list[str]:
    lines = []
    for name in (entry.name for entry in fields(a)):
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine == theirs:
            continue
        if isinstance(mine, Partner) and isinstance(theirs, Partner):
            lines.extend(_difference(mine, theirs, f"{name}."))
        elif name == "partner":
            mine, theirs = (None if one is None else one.model for one in (mine, theirs))
            lines.append(f"partner: {mine!r} against {theirs!r}")
        elif name == "tensors":
            lines.append(f"{prefix}tensors: {_unequal(mine, theirs)}")
        elif name in ("rows", "shares"):
            mine, theirs = mine.to_json(), theirs.to_json()
            lines.extend(
                f"{prefix}{name}.{key}: {mine[key]!r} against {theirs[key]!r}"
                for key in mine
                if mine[key] != theirs[key]
            )
        else:
            lines.append(f"{prefix}{name}: {_shown(mine)} against {_shown(theirs)}")
    return lines


def _shown(value: object) -> str:
    """A value for a message; of a digest only its first digits."""
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{40,}", value):
        return f"{value[:12]}…"
    return repr(value)


def _unequal(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    names = sorted(set(mine) | set(theirs))
    unequal = [name for name in names if mine.get(name) != theirs.get(name)]
    first = unequal[0]
    return (
        f"{len(unequal)} of {len(names)} unequal, first {first!r}: "
        f"{_shown(mine.get(first))} against {_shown(theirs.get(first))}"
    )
