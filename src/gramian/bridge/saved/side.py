"""Whose vectors are these? A test of incoming rows against what a bridge was fitted on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError
from gramian.moments import Moments

FLOOR = 1e-2
"""Smallest eigenvalue that is used, relative to the mean one."""
SCALE = 2.0
"""Typical lengths that differ by more than this factor are not of the same vectors."""
VERDICTS = ("source", "target", "other", "scaled", "unknown")


@dataclass(frozen=True)
class SideCheck:
    """What the rows look like beside the recorded source and target."""

    verdict: str
    """``source`` (as it should be), ``target`` (the bridge is used the wrong way round),
    ``other`` (another model, or the same with another prompt), ``scaled`` (lengths that the
    source does not have) or ``unknown`` (nothing recorded that could tell)."""
    reason: str
    surprise: float = math.nan
    """Mean squared Mahalanobis distance per dimension under the source: about 1, or less, for
    its own rows."""
    threshold: float = math.nan
    """Above it the rows are nearer to a random rotation of the source than to the source."""

    @property
    def good(self) -> bool:
        """Whether nothing speaks against these rows."""
        return self.verdict in ("source", "unknown")

    def require(self) -> SideCheck:
        """Itself, when the rows may be mapped.

        Raises
        ------
        GramianError : the rows are not of the source.
        """
        if not self.good:
            raise GramianError(self.reason)
        return self


def check_side(
    incoming: Moments, source: Moments, target: Moments, names: tuple[str, str]
) -> SideCheck:
    """Compare incoming rows with the recorded source and, where the widths agree, the target.

    With ``S`` the recorded covariance, shrunk towards its mean eigenvalue, the surprise is
    ``tr(S^-1 (C + g g^T)) / d`` of the covariance ``C`` of the incoming rows and the gap ``g``
    between the means. It is at most about 1 for rows of the source (less where small
    eigenvalues were raised) and ``s_random`` for the source's own rows
    after a random rotation. The threshold is ``sqrt(s_random)``, half way between the two on a
    logarithmic scale. The direction is decided by the likelihood under the two recorded Gaussians
    (their diagonals when no more is known of the target).

    incoming : full or diagonal moments; at least one row. names : of source and target.
    """
    if incoming.count < 1 or source.count < 2:
        return SideCheck("unknown", "too few rows to tell whose they are")
    length, recorded = _length(incoming), _length(source)
    left = _Gaussian.of(source, diagonal=incoming.is_diagonal)
    surprise, random = left.surprise(incoming), left.random()
    threshold = math.sqrt(random)
    figures = {"surprise": surprise, "threshold": threshold}
    if incoming.d == target.d and target.count >= 2:
        diagonal = incoming.is_diagonal or target.is_diagonal
        one = _Gaussian.of(source, diagonal=diagonal).likelihood(incoming)
        two = _Gaussian.of(target, diagonal=diagonal).likelihood(incoming)
        if two > one:
            return SideCheck(
                "target",
                f"these rows look like {names[1]}, the target of this bridge, and not like "
                f"{names[0]}, its source (log-likelihood per row {two:.1f} against {one:.1f}): "
                "the bridge is used the wrong way round; fit the other direction",
                **figures,
            )
    ratio = length / recorded if recorded > 0 else math.inf
    if not 1 / SCALE <= ratio <= SCALE:
        return SideCheck(
            "scaled",
            f"these rows have a typical length of {length:.3g}, those of {names[0]} that the "
            f"bridge was fitted on {recorded:.3g}: normalised by the store, or another model; "
            "pass vectors as they were when the bridge was fitted",
            **figures,
        )
    if threshold < 1.05:
        return SideCheck(
            "unknown",
            f"{names[0]} has no preferred directions: its moments cannot tell its rows from others",
            **figures,
        )
    if surprise > threshold:
        return SideCheck(
            "other",
            f"these rows do not look like {names[0]}, the source of this bridge: their mean "
            f"squared distance per dimension is {surprise:.3g}, at most about 1 is expected and "
            f"{random:.3g} of a random rotation: vectors of another model, or another prompt; "
            "fit a bridge for them",
            **figures,
        )
    return SideCheck("source", f"these rows look like {names[0]}", **figures)


@dataclass(frozen=True, eq=False)
class _Gaussian:
    mean: Tensor
    values: Tensor
    """Shrunk eigenvalues, or variances, (d,)."""
    raw: Tensor
    """The same before they were shrunk."""
    vectors: Tensor | None

    @classmethod
    def of(cls, moments: Moments, *, diagonal: bool) -> _Gaussian:
        n, d = moments.count, moments.d
        if diagonal or moments.is_diagonal:
            raw, vectors = moments.variances / (n - 1), None
            weight = 1 / n
        else:
            raw, vectors = torch.linalg.eigh(moments.scatter / (n - 1))
            weight = d / (n + d)
        raw = raw.clamp(min=0)
        mean = float(raw.mean())
        # with as many rows as dimensions, half of the spread of the eigenvalues is noise
        values = ((1 - weight) * raw + weight * mean).clamp(min=max(FLOOR * mean, 1e-300))
        return cls(moments.mean, values, raw, vectors)

    def _second(self, incoming: Moments) -> Tensor:
        """Mean square of the incoming rows about the mean along every axis, (d,)."""
        gap = incoming.mean - self.mean
        if self.vectors is None:
            return incoming.variances / incoming.count + gap.square()
        rotated = ((incoming.scatter @ self.vectors) * self.vectors).sum(0) / incoming.count
        return rotated + (self.vectors.T @ gap).square()

    def surprise(self, incoming: Moments) -> float:
        return float((self._second(incoming) / self.values).mean())

    def random(self) -> float:
        """The surprise of its own rows after a random rotation."""
        # a rotated row spreads its second moment over all axes, its mean goes anywhere
        size = float(self.mean @ self.mean) / len(self.mean)
        along = self.mean if self.vectors is None else self.vectors.T @ self.mean
        spread = float(self.raw.mean()) + size + along.square()
        return float((spread / self.values).mean())

    def likelihood(self, incoming: Moments) -> float:
        return -0.5 * float(
            (self._second(incoming) / self.values + self.values.log()).sum()
            + len(self.values) * math.log(2 * math.pi)
        )


def _length(moments: Moments) -> float:
    return math.sqrt(moments.trace / moments.count + float(moments.mean @ moments.mean))


def as_moments(rows: Any, width: int) -> Moments:
    """Moments of rows, or the moments that were given.

    Raises
    ------
    GramianError : another width, or NaN in a row.
    """
    if isinstance(rows, Moments):
        if rows.d != width:
            raise GramianError(f"moments of rows {rows.d} wide, expected {width}")
        return rows
    return Moments.from_rows(as_matrix(rows, "rows", width=width), quartic=False)
