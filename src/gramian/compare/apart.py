"""Measures of sites whose rows are not paired: spectra, and distances between covariances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.compare.catalogue import Measure
from gramian.compare.pairs import Pairs
from gramian.errors import GramianError
from gramian.measures import spectral_distance
from gramian.moments import Moments


class Apart:
    """The unpaired measures between sites of two sets (or of one, taken twice)."""

    def __init__(self, rows: Pairs, columns: Pairs, measures: Sequence[Measure]) -> None:
        self.sides = (rows, columns)
        self.measures = measures
        self._spectra: tuple[dict[str, list[Tensor]], ...] = ({}, {})
        self._row: tuple[str, list[Moments]] | None = None

    def values(self, x: str, y: str) -> dict[str, list[float]]:
        """Measure to its value by subset."""
        found: dict[str, list[float]] = {}
        for measure in self.measures:
            if measure.apart is None:
                spectra = zip(self._spectrum(0, x), self._spectrum(1, y), strict=True)
                found[measure.name] = [spectral_distance(p, q) for p, q in spectra]
                continue
            sides = zip(self._rows_of(x), self.sides[1].site(y), strict=True)
            try:
                found[measure.name] = [
                    0.0 if self.sides[0] is self.sides[1] and x == y else measure.apart(a, b)
                    for a, b in sides
                ]
            except GramianError as error:
                raise GramianError(f"{measure.name} of {x} and {y}: {error}") from None
        return found

    def _spectrum(self, side: int, site: str) -> list[Tensor]:
        """Eigenvalues of a site's scatter by subset, worked out once."""
        known = self._spectra[side]
        if site not in known:
            known[site] = [_eigenvalues(moments) for moments in self.sides[side].site(site)]
        return known[site]

    def _rows_of(self, site: str) -> list[Moments]:
        """The moments of the row site, kept while its row of the matrix is filled."""
        if self._row is None or self._row[0] != site:
            self._row = (site, self.sides[0].site(site))
        return self._row[1]


def _eigenvalues(moments: Moments) -> Tensor:
    if moments.count < 2:
        return torch.full((1,), math.nan, dtype=torch.float64)
    values: Tensor = torch.linalg.eigvalsh(moments.scatter)
    return values.clamp_min(0.0)
