"""A second moment from rows with missing entries: low rank fills in pairs never seen together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize as descend
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import MaskedMoments, Moments
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@dataclass(frozen=True, eq=False)
class Completion:
    """``second = factor factor^T``, positive semidefinite, with the evidence for it."""

    factor: Tensor
    """(d, rank) float64."""
    moments: Moments
    """Of all rows: scatter ``rows x second``; about zero with ``centred=False``."""
    misfit: float
    """Weighted relative distance from what was seen, the root of
    ``sum N (G - V V^T)^2 / sum N G^2``."""
    unseen: float
    """Share of the pairs of coordinates never seen together, which the rank alone fills in."""
    steps: int
    """Iterations of the descent."""
    notes: tuple[str, ...] = field(default=())
    """What a person should know: no convergence, coordinates with too few partners."""

    @property
    def second(self) -> Tensor:
        """Mean product of each pair of coordinates, (d, d)."""
        return self.factor @ self.factor.T


@method("one_sided_completion", job="solve", paper="2306.04049")
def complete(
    masked: MaskedMoments,
    rank: int,
    *,
    centred: bool = True,
    diagonal: bool = True,
    steps: int = 1000,
) -> Completion:
    """Positive semidefinite second moment of given rank nearest to what masked rows show.

    Minimises ``sum N_ab (G_ab - (V V^T)_ab)^2`` over ``V`` (d, rank), with ``G`` the mean product
    of each pair over the ``N_ab`` rows in which both were seen: pairs seen often count for more,
    pairs never seen follow from the rank. Two entries a row are enough. With nothing missing the
    leading eigenvectors of ``X^T X / n``. Starts from the eigenvectors of ``G`` with zeros for
    what is missing; L-BFGS does the rest.

    Parameters
    ----------
    masked : counts and products of the entries that were seen.
    rank : of the result, 1 to d.
    centred : about the means, else about zero.
    diagonal : fit the diagonal too. Independent noise in every entry adds to the diagonal only:
        leave it out then, with a rank well below d.
    steps : iterations at most.

    Raises
    ------
    GramianError : a rank outside 1 to d, a coordinate that was never seen, or coordinates in groups
        never seen together, whose cross moments nothing determines.
    """
    d = masked.d
    if not 1 <= rank <= d:
        raise GramianError(f"rank is {rank} of {d} coordinates, expected 1 to {d}")
    _check_connected(masked.pairs)
    given = masked.second(centred=centred).nan_to_num(0.0)
    weight = masked.pairs / masked.pairs.max()
    if not diagonal:
        weight = weight - torch.diag(weight.diagonal())
    size = float(given.diagonal().mean())
    if not size > 0:
        raise GramianError("what was seen does not vary; there is nothing to complete")
    target = given / size
    start = _start(target, rank, filled=bool((masked.pairs == 0).any()))
    found = descend(
        _objective,
        start.numpy().ravel(),
        args=(target.numpy(), weight.numpy(), rank),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-15, "gtol": 1e-9},
    )
    factor = torch.from_numpy(found.x.reshape(d, rank)) * size**0.5
    second = factor @ factor.T
    seen = float((weight * given.square()).sum())
    left = float((weight * (given - second).square()).sum())
    mean = masked.mean if centred else torch.zeros_like(masked.mean)
    return Completion(
        factor,
        Moments(float(masked.rows), float(masked.rows), mean, second * masked.rows),
        (left / seen) ** 0.5 if seen > 0 else 0.0,
        float((masked.pairs == 0).double().mean()),
        int(found.nit),
        tuple(_notes(masked.pairs, rank, int(found.nit) >= steps)),
    )


def _objective(
    flat: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    rank: int,
) -> tuple[float, NDArray[np.float64]]:
    """``sum w (V V^T - G)^2 / 4`` and its gradient ``(w o (V V^T - G)) V``."""
    v = flat.reshape(-1, rank)
    gap = v @ v.T - target
    pull = weight * gap
    return float((pull * gap).sum()) / 4.0, (pull @ v).ravel()


def _start(target: Tensor, rank: int, filled: bool) -> Tensor:
    values, vectors = eigh(target)
    values, vectors = values[-rank:], vectors[:, -rank:]
    # A column of zeros has no gradient: where pairs are missing every column starts alive.
    floor = 1e-3 * float(values[-1]) if filled else 0.0
    return vectors * values.clamp_min(floor).sqrt()


def _check_connected(pairs: Tensor) -> None:
    never = torch.nonzero(pairs.diagonal() == 0).flatten().tolist()
    if never:
        raise GramianError(
            f"{len(never)} coordinates were never seen, the first is {never[0]}; leave them out, "
            "or collect rows that hold them"
        )
    groups, label = connected_components((pairs > 0).numpy(), directed=False)
    if groups > 1:
        first, other = (int(np.flatnonzero(label == group)[0]) for group in (0, 1))
        raise GramianError(
            f"the coordinates fall into {groups} groups never seen together, for example {first} "
            f"and {other}: nothing determines their cross moments; complete each group for itself"
        )


def _notes(pairs: Tensor, rank: int, stopped: bool) -> list[str]:
    notes = []
    partners = (pairs > 0).sum(0) - 1
    few = int((partners < min(rank, len(pairs) - 1)).sum())
    if few:
        notes.append(
            f"{few} coordinates were seen together with fewer than {rank} others: their direction "
            "is not determined"
        )
    if stopped:
        notes.append("the descent stopped at its last step; allow more")
    return notes
