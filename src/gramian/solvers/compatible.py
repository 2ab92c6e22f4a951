"""A new model's vectors, turned so that their first coordinates are those of the old one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Dense, LinearMap, Tag
from gramian.moments import JointMoments, Quadratic
from gramian.registry import method
from gramian.solvers.evidence import Evidence
from gramian.solvers.judged import judged
from gramian.solvers.ridge import ridge
from gramian.solvers.spectrum import eigh

WAYS = ("predicting", "procrustes")
KEEP_ALL = 1e-12
"""Relative ridge under which the regression of old on new is least squares for all purposes."""


@dataclass(frozen=True, eq=False)
class CompatibleHead:
    """Maps of the new and of the old space into one, which `compatible_head` makes."""

    forward: Dense
    """New rows (n, d_new) to (n, width), with the extra coordinates predicted from them."""
    rotation: Dense
    """``[extra; new]`` (extra + d_new) to (width,): orthonormal columns, and orthogonal where
    nothing had to be padded. ``forward = rotation [read; I]``."""
    read: Tensor
    """(extra, d_new): what predicts the extra coordinates from a new row."""
    directions: Tensor
    """(extra, d_old): what reads them off an old row, orthonormal rows."""
    padded: Dense
    """Old rows (n, d_old) to (n, width): the row itself, then zeros; orthonormal columns."""
    evidence: Evidence
    """Of `slice` as a prediction of old vectors; R² is about their mean and may be below zero."""

    @property
    def d_old(self) -> int:
        """Width of the old space: so many leading coordinates compare with it."""
        return self.padded.in_features

    @property
    def d_new(self) -> int:
        """Width of the new space."""
        return self.forward.in_features

    @property
    def extra(self) -> int:
        """Coordinates that were added for the sake of the old space."""
        return self.directions.shape[0]

    @property
    def width(self) -> int:
        """Width of the common space."""
        return self.forward.out_features

    @property
    def slice(self) -> Dense:
        """New rows to the first d_old coordinates alone."""
        return Dense(self.forward.weight[: self.d_old].contiguous())

    def both(self, new: Tensor, old: Tensor) -> Tensor:
        """Rows (n, width) of items of which both vectors (n, d_new), (n, d_old) are at hand.

        The extra coordinates are then those of the old vector, not predictions of them, and
        ``|row|^2 = |new|^2 + |directions old|^2``.
        """
        dtype = torch.promote_types(new.dtype, old.dtype)
        told = old.to(dtype) @ self.directions.to(dtype).T
        return self.rotation(torch.cat([told, new.to(dtype)], dim=-1))


@method("compatible_head", job="bridge", paper="2211.03989; 2408.08793")
def compatible_head(
    train: JointMoments,
    report: JointMoments | None = None,
    *,
    way: str = "predicting",
    extra: int = 0,
    ridge_share: float = 1e-6,
) -> CompatibleHead:
    """Turn new vectors so that their first d_old coordinates compare with an old gallery.

    Without extra coordinates the map is an isometry: lengths, inner products and cosines between
    new vectors are what they were, and only queries cut to d_old coordinates meet old vectors.
    ``predicting`` (the split of BT²) turns to the front those directions of the new space that
    linearly predict the old one, then rotates within them; ``procrustes`` (OCA) takes the thin
    polar factor of the cross moments and any orthonormal completion. The remaining coordinates
    come by falling second moment. All moments are about zero: a bias would change cosines.

    With ``extra`` = k, the k directions of the old space in which a regression on the new one
    leaves the largest error get coordinates of their own (`CompatibleHead.both`,
    `CompatibleHead.read`), at the price of a wider vector.

    Parameters
    ----------
    train, report : moments of the folds with the new space as ``x`` and the old one as ``y``,
        full on both sides.
    way : ``"predicting"`` or ``"procrustes"``.
    extra : 0 to d_old.
    ridge_share : of the regression of old on new, over the mean eigenvalue of the new one.

    Raises
    ------
    GramianError : diagonal moments of either side, no rows, an unknown way, extra out of range.
    """
    _check(train, way, extra, ridge_share)
    d_new, d_old = train.x.d, train.y.d
    objective = Quadratic.from_joint(train, intercept=False)
    second, cross = objective.A, objective.B
    notes: list[str] = []
    if train.count < d_new:
        notes.append(
            f"{train.count:g} rows for {d_new} dimensions: what predicts the old space is found "
            "by chance; give more pairs, or way='procrustes'"
        )
    mean = float(second.diagonal().mean())
    if mean <= 0:
        raise GramianError("compatible_head: the new vectors are all zero")
    values, vectors = eigh(second)
    strength = max(ridge_share, KEEP_ALL) * mean
    eye = torch.eye(d_new, dtype=second.dtype)
    # (d_old, d_new): W = B^T (A + lambda)^-1
    predictor = ((cross.T @ vectors) / (values.clamp_min(0.0) + strength)) @ vectors.T
    own, shared = _old_directions(train, predictor, cross, extra)
    # `shared` (d_old - k, d_old) are matched by orthonormal rows of the new space
    wanted = cross @ shared.T  # (d_new, d_old - k)
    thin = min(d_new, wanted.shape[1])
    if way == "predicting" and thin < d_new:
        basis = torch.linalg.svd(shared @ predictor, full_matrices=False).Vh[:thin]
        turn = _polar(wanted.T @ basis.T, notes)
        front = turn @ basis
    else:
        front = _polar(wanted.T, notes)
    rows = _completed(front, second)
    width = extra + len(rows)
    # [V^T shared^T] turns the leading d_old coordinates into those of the old space
    frame = torch.cat([own, shared]).T
    turned = torch.zeros(width, extra + d_new, dtype=second.dtype)
    turned[:extra, :extra] = torch.eye(extra, dtype=second.dtype)
    turned[extra:, extra:] = rows
    turned[:d_old] = frame @ turned[:d_old]
    tags = {Tag.ORTHOGONAL} if turned.shape[0] == turned.shape[1] else set[Tag]()
    rotation = Dense(turned, tags=tags)
    read = own @ predictor
    forward = turned @ torch.cat([read, eye])
    square = extra == 0 and forward.shape[0] == forward.shape[1]
    padded = torch.eye(width, d_old, dtype=second.dtype)
    return CompatibleHead(
        Dense(forward.contiguous(), tags={Tag.ORTHOGONAL} if square else set()),
        rotation,
        read,
        own,
        Dense(padded),
        judged(
            Dense(forward[:d_old].contiguous()),
            {"train": train, "report": report},
            values,
            rows=train.count,
            notes=notes,
            regularization=strength,
            relative=strength / mean,
        ).evidence,
    )


@method("backward_map", job="bridge", paper="2211.03989")
def backward_map(
    head: CompatibleHead, joint: JointMoments, select: JointMoments | None = None
) -> LinearMap:
    """Old rows to the whole common space of a head, by least squares.

    For old vectors that stay: where `CompatibleHead.padded` leaves what the old model did not
    tell at zero, this puts there what is to be expected.

    joint, select : as for `compatible_head`; the ridge is chosen on ``select``.

    Raises
    ------
    GramianError : as `gramian.solvers.ridge`.
    """
    turned = [
        None if fold is None else fold.through(head.forward).swap() for fold in (joint, select)
    ]
    assert turned[0] is not None
    return ridge(turned[0], turned[1]).map


def _old_directions(
    joint: JointMoments, predictor: Tensor, cross: Tensor, extra: int
) -> tuple[Tensor, Tensor]:
    """Rows (k, d_old) that get coordinates of their own, and the rest (d_old - k, d_old)."""
    d_old = joint.y.d
    if extra == 0:
        eye = torch.eye(d_old, dtype=cross.dtype)
        return eye[:0], eye
    # Syy - W Sxy: what the regression leaves of the old space
    told = predictor @ cross
    left = joint.y.raw() - (told + told.T) / 2
    vectors = eigh((left + left.T) / 2)[1].flip(1).T
    return vectors[:extra].contiguous(), vectors[extra:].contiguous()


def _polar(matrix: Tensor, notes: list[str]) -> Tensor:
    """The nearest matrix with orthonormal rows or columns."""
    if not min(matrix.shape):
        return matrix
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    rank = int((s > max(matrix.shape) * torch.finfo(s.dtype).eps * s[0]).sum())
    if rank < len(s):
        notes.append(
            f"old and new share {rank} of {len(s)} directions: the others were turned arbitrarily"
        )
    nearest: Tensor = u @ vh
    return nearest


def _completed(front: Tensor, second: Tensor) -> Tensor:
    """Front rows (r, d), then orthonormal rows of what they leave, by falling second moment."""
    r, d = front.shape
    if r >= d:
        return front
    rest = torch.linalg.svd(front, full_matrices=True).Vh[r:]
    inside = rest @ second @ rest.T
    vectors = eigh((inside + inside.T) / 2)[1].flip(1).T
    rest = vectors @ rest
    # the largest entry of a row is positive: two fits on the same rows turn the same way
    peaks = rest.gather(1, rest.abs().argmax(1, keepdim=True))
    return torch.cat([front, rest * peaks.sign()])


def _check(joint: JointMoments, way: str, extra: int, share: float) -> None:
    if way not in WAYS:
        raise GramianError(f"way is {way!r}, expected one of {', '.join(WAYS)}")
    if joint.x.is_diagonal or joint.y.is_diagonal:
        raise GramianError("compatible_head needs full moments of both; collect order='full'")
    if joint.count <= 0:
        raise GramianError("compatible_head: no rows; give pairs of old and new vectors")
    if not 0 <= extra <= joint.y.d:
        raise GramianError(f"extra is {extra}, expected 0 to {joint.y.d}, the old width")
    if not 0 <= share < float("inf"):
        raise GramianError(f"ridge_share is {share}, expected a finite number of at least 0")
