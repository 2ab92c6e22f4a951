"""What a person should know of a bridge before trusting it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gramian.bridge.drift import Drift
from gramian.bridge.paired import Bridge
from gramian.bridge.pairing import Pairs
from gramian.bridge.texts import EmbeddedTexts
from gramian.bridge.vectors import VectorSource

FEW = 2.0
"""Pairs per dimension below which more are advised."""
FEW_QUERIES = 200
"""Pairs of queries below which their figures are coarse."""
POOR_RECALL = 0.5
"""Share of partners found first below which a bridge alone is doubtful."""
WIDE = 2.0
"""Median lengths of the two sides that differ by more than this factor are worth a word."""


class Lengths:
    """The lengths of the rows of a side."""

    def __init__(self) -> None:
        self.rows = self.off = self.zeros = 0
        self.shortest, self.longest, self._total = math.inf, 0.0, 0.0

    def update(self, rows: NDArray[np.float32]) -> None:
        """Look at some rows."""
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        self.rows += len(norms)
        self.off += int((np.abs(norms - 1.0) > 2e-3).sum())
        self.zeros += int((norms == 0).sum())
        self._total += float(norms.sum())
        self.shortest = min(self.shortest, float(norms.min(initial=math.inf)))
        self.longest = max(self.longest, float(norms.max(initial=0.0)))

    @property
    def unit(self) -> bool:
        """All lengths are 1, to half precision; rows of zeros have none."""
        return self.rows > self.zeros and self.off == self.zeros

    @property
    def mean(self) -> float:
        """The mean length."""
        return self._total / self.rows if self.rows else math.nan


def of_pairs(pairs: Pairs, lengths: tuple[Lengths, Lengths]) -> list[str]:
    """Of the pairs themselves."""
    said = []
    if pairs.count < FEW * pairs.source.dim:
        said.append(
            f"{pairs.count:,} pairs for {pairs.source.dim} dimensions; at least "
            f"{int(FEW * pairs.source.dim):,} are better, some 4,000 usually enough"
        )
    if any(pairs.dropped):
        said.append(
            f"{pairs.dropped[0]:,} rows of {pairs.source.address} and {pairs.dropped[1]:,} of "
            f"{pairs.target.address} have no partner and were left out"
        )
    sides = (pairs.source, pairs.target)
    for side, length in zip(sides, lengths, strict=True):
        if length.zeros:
            said.append(
                f"{length.zeros:,} vectors of {side.address} are zero: texts without a known "
                "word, or rows that were never filled"
            )
    one, other = lengths
    if one.unit != other.unit:
        unit, free = ("target", one) if other.unit else ("source", other)
        said.append(
            f"only the {unit} has rows of length 1 (the others from {free.shortest:.3g} to "
            f"{free.longest:.3g}): a store may have normalised them"
        )
    elif not one.unit and not 1 / WIDE <= one.mean / max(other.mean, 1e-30) <= WIDE:
        said.append(
            f"rows are {one.mean:.3g} long on average in the source and {other.mean:.3g} in the "
            "target; compare by cosine"
        )
    return said


def of_texts(sides: Iterable[VectorSource]) -> list[str]:
    """Of texts that a model did not read to the end."""
    return [
        f"{side.embedder.truncated:,} texts are longer than {side.address} reads and were cut"
        for side in sides
        if isinstance(side, EmbeddedTexts) and side.embedder.truncated
    ]


def of_fit(found: Bridge, compared: Drift | None, queries: Pairs | None) -> list[str]:
    """Of the fit: drift, the bound, suspects, what is found on pairs set aside."""
    said = []
    if compared is not None and compared.drifted:
        said.append(
            f"{compared}: sample the pairs from the index itself, which matters more than the "
            "method"
        )
    if queries is not None and queries.count < FEW_QUERIES:
        said.append(
            f"{queries.count:,} pairs of queries: a quarter of them each choose and judge, so "
            "the figures are coarse"
        )
    bound = found.bound_
    if bound is not None and bound.vacuous:
        said.append(
            "the geometry of the two spaces promises a rotation nothing (the bound is met by any "
            "rows): only the figures on pairs set aside speak for the bridge"
        )
    suspects = found.suspects_
    if suspects is not None and (len(suspects) or not suspects.told):
        said.append(suspects.note)
    recall = found.retrieval_report_.get("recall@1")
    if recall is not None and recall < POOR_RECALL:
        said.append(
            f"a mapped row finds its own partner first in {recall:.0%} of cases: judge the bridge "
            "on queries before relying on it alone"
        )
    return said
