"""What a solver returns: a map, and the evidence for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gramian.errors import GramianError
from gramian.maps import LinearMap


@dataclass(frozen=True)
class Evidence:
    """How well a map does, and what had to be done to get it."""

    errors: Mapping[str, float]
    """Fold to squared error per row. ``train`` and ``select`` are of the map fitted on ``train``
    alone; ``report`` is of the map returned."""
    r2: Mapping[str, float]
    """Fold to the explained share of the variance of the target about its mean in that fold, all
    coordinates together (scikit-learn's ``variance_weighted``)."""
    condition: float
    """Largest over smallest eigenvalue of the input's second moments, infinite when singular."""
    effective_rank: float
    """Exponential of the entropy of those eigenvalues."""
    regularization: float
    """The ridge that was added to the second moments (sums, not means) of the map returned; of
    another filter its strength, see `filter_factors`."""
    relative_regularization: float
    """The same over the median eigenvalue; the value taken from the grid."""
    rows_per_dimension: float
    """Rows of the fit over the width of the input."""
    notes: tuple[str, ...] = field(default=())
    """What a person should know: too few rows, a singular input, a choice made by default."""

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values; what is not finite becomes None."""
        values = asdict(self)
        for name, value in values.items():
            if isinstance(value, float) and not math.isfinite(value):
                values[name] = None
        return values | {"notes": list(self.notes)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Evidence:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        GramianError : a field is missing, unknown, or of another type.
        """
        try:
            condition, rank, ridge, relative, rows = (
                math.inf if value[name] is None else float(value[name]) for name in _NUMBERS
            )
            errors, r2 = (
                {str(fold): float(number) for fold, number in value[name].items()}
                for name in ("errors", "r2")
            )
            notes = tuple(str(note) for note in value["notes"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GramianError(f"evidence cannot be read: {error!r}") from error
        return cls(errors, r2, condition, rank, ridge, relative, rows, notes)


_NUMBERS = (
    "condition",
    "effective_rank",
    "regularization",
    "relative_regularization",
    "rows_per_dimension",
)


@dataclass(frozen=True)
class Solution:
    """A map and the evidence for it."""

    map: LinearMap
    """`Affine` when it was fitted with an intercept."""
    evidence: Evidence
