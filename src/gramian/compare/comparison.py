"""What a comparison found: a matrix per measure, plain records, and what to beware of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gramian.errors import GramianError


@dataclass(frozen=True)
class Best:
    """The column that is closest to a row."""

    site: str
    match: str
    value: float
    error: float | None


@dataclass(frozen=True, eq=False)
class Matrix:
    """One measure between all rows and columns."""

    measure: str
    summary: str
    similarity: bool
    """Whether larger means closer."""
    sinks: bool
    """Whether sink rows were counted."""
    x: tuple[str, ...]
    """Sites of the rows."""
    y: tuple[str, ...]
    """Sites of the columns."""
    values: Tensor
    """(rows, columns) float64; nan where the measure has no value."""
    errors: Tensor | None
    """Standard errors by the jackknife over folds of documents, nan where there is none."""

    @property
    def title(self) -> str:
        """The measure and its rows, in words."""
        return f"{self.measure}, {'with' if self.sinks else 'without'} sink rows"

    def __getitem__(self, sites: tuple[str, str]) -> float:
        """The value of a row site and a column site."""
        for name, known in zip(sites, (self.x, self.y), strict=True):
            if name not in known:
                raise GramianError(f"no site {name!r} here; there are {', '.join(known)}")
        return float(self.values[self.x.index(sites[0]), self.y.index(sites[1])])

    def best(self) -> tuple[Best, ...]:
        """The closest column of every row, other than itself; rows without a value are left out."""
        found = []
        for i, site in enumerate(self.x):
            order = [
                (float(value) * (-1 if self.similarity else 1), j)
                for j, value in enumerate(self.values[i])
                if self.y[j] != site and not math.isnan(float(value))
            ]
            if order:
                j = min(order)[1]
                error = None if self.errors is None else _number(self.errors[i, j])
                found.append(Best(site, self.y[j], float(self.values[i, j]), error))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Values and errors as lists of rows, null where there is none."""
        return {
            "measure": self.measure,
            "summary": self.summary,
            "similarity": self.similarity,
            "sinks": self.sinks,
            "x": list(self.x),
            "y": list(self.y),
            "values": _rows(self.values),
            "standard_errors": None if self.errors is None else _rows(self.errors),
            "best": [
                {"site": b.site, "match": b.match, "value": b.value, "standard_error": b.error}
                for b in self.best()
            ],
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Layers against layers."""

    models: tuple[str, str]
    """The networks of the rows and of the columns; twice the same inside one network."""
    paired: bool
    """Whether rows were collected side by side."""
    align: str | None
    """How rows of two networks were paired (see ``Recipe.partner``), else None."""
    rows: Mapping[str, int]
    """``kept`` and ``sinks``: how many rows are behind the moments, in all folds; of a second
    set ``other_kept`` and ``other_sinks``."""
    documents: int
    folds: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    warnings: tuple[str, ...]

    @property
    def inside(self) -> bool:
        """Whether sites are compared with themselves."""
        return self.matrices[0].x == self.matrices[0].y and self.paired

    def matrix(self, measure: str, *, sinks: bool = False) -> Matrix:
        """The matrix of a measure.

        Raises
        ------
        GramianError : it was not asked for.
        """
        for found in self.matrices:
            if (found.measure, found.sinks) == (measure, sinks):
                return found
        raise GramianError(
            f"no matrix of {measure!r} {'with' if sinks else 'without'} sink rows here; there is "
            f"{'; '.join(found.title for found in self.matrices)}"
        )

    def to_json(self) -> dict[str, Any]:
        """The document that ``gramian compare --json`` prints."""
        return {
            "models": list(self.models),
            "paired": self.paired,
            "align": self.align,
            "rows": dict(self.rows),
            "documents": self.documents,
            "folds": list(self.folds),
            "matrices": [found.to_json() for found in self.matrices],
            "warnings": list(self.warnings),
        }


def _number(value: Tensor) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _rows(matrix: Tensor) -> list[Sequence[float | None]]:
    return [[_number(value) for value in row] for row in matrix]
