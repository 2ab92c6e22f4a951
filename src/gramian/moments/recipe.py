"""What a set of statistics is of; two sets may be added only when these agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from gramian.errors import GramianError
from gramian.moments.fields import Fields
from gramian.moments.folds import FOLDS, Shares

PRECISIONS = ("float32", "float64")


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
        return {
            "model": self.model,
            "weights": self.weights,
            "tensors": dict(self.tensors),
            "tokenizer": self.tokenizer,
            "template": self.template,
            "length": self.length,
            "bos": self.bos,
            "rows": self.rows.to_json(),
            "shares": self.shares.to_json(),
            "precision": self.precision,
        }

    @classmethod
    def from_json(cls, value: object, where: str = "recipe") -> Recipe:
        """Read what :meth:`to_json` wrote.

        Raises:
            GramianError: a key is missing or unknown, or a value has another type.
        """
        top = Fields(value, where)
        tensors, rows, shares = top.fields("tensors"), top.fields("rows"), top.fields("shares")
        thresholds = rows.fields("thresholds")
        recipe = cls(
            model=top.text("model"),
            weights=top.text("weights"),
            tensors={name: tensors.text(name) for name in tensors},
            tokenizer=top.text("tokenizer"),
            template=top.text("template"),
            length=top.integer("length", low=1),
            bos=top.flag("bos"),
            rows=RowRule(
                first=rows.flag("first"),
                factor=rows.optional_number("factor"),
                thresholds={site: thresholds.number(site) for site in thresholds},
            ),
            shares=Shares(**{fold: shares.number(fold) for fold in FOLDS}),
            precision=top.text("precision", PRECISIONS),
        )
        for part in (top, rows, shares):
            part.close()
        return recipe

    def difference(self, other: Recipe) -> list[str]:
        """One line for each field that is not equal, with both values; empty when equal."""
        lines = []
        for name in (entry.name for entry in fields(self)):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine == theirs:
                continue
            if name == "tensors":
                lines.append(f"tensors: {_unequal(mine, theirs)}")
            elif name in ("rows", "shares"):
                mine, theirs = mine.to_json(), theirs.to_json()
                lines.extend(
                    f"{name}.{key}: {mine[key]!r} against {theirs[key]!r}"
                    for key in mine
                    if mine[key] != theirs[key]
                )
            else:
                lines.append(f"{name}: {mine!r} against {theirs!r}")
        return lines


def _unequal(mine: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    names = sorted(set(mine) | set(theirs))
    unequal = [name for name in names if mine.get(name) != theirs.get(name)]
    first = unequal[0]
    return (
        f"{len(unequal)} of {len(names)} unequal, first {first!r}: "
        f"{mine.get(first)!r} against {theirs.get(first)!r}"
    )
