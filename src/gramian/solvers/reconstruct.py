"""The weight that makes up for features that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap
from gramian.moments import Moments, Quadratic
from gramian.registry import method
from gramian.solvers.minimise import minimise
from gramian.solvers.spectrum import about, middle_eigenvalue

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 0.3, 1.0, 3.0, 10.0)
"""The default grid, relative to the median eigenvalue of the features' second moments."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A matrix over fewer features, and how much of the old output it misses."""

    map: LinearMap
    """(kept -> out); `Affine` with the new bias where there was a bias."""
    errors: Mapping[str, float]
    """Fold to squared error over the squared length of the old output, bias included. ``report``
    is of the map returned; ``train`` and ``select`` are of the map fitted on ``train`` alone."""
    ridge: float | None
    """The ridge taken, relative to the median eigenvalue; None without a refit."""


@method("nystrom_reconstruction", job="solve", paper="2408.09632")
def reconstruct(
    weight: Tensor,
    kept: Sequence[int] | Tensor,
    train: Moments,
    select: Moments | None = None,
    report: Moments | None = None,
    *,
    bias: Tensor | None = None,
    refit: bool = True,
    ridges: Sequence[float] = RIDGES,
    scale: float | None = None,
) -> Reconstruction:
    """A linear layer from which input features are taken, refitted to give what it gave.

    Minimises ``tr(E C E^T) + lambda |W' - W_J|^2`` with ``E = W - W' P_J``, ``C`` the second
    moments of its input and ``J`` the features kept: without a ridge
    ``W' = W C_J C_JJ^-1``, which misses ``tr(W (C - C_J C_JJ^-1 C_J^T) W^T)``. The ridge draws
    to the layer with the features deleted, so the fit is never worse than deletion on the rows it
    was fitted on, and exact when everything is kept. With a bias the second moments are about the
    mean and the bias follows; a feature that never varies is then free.

    Parameters
    ----------
    weight : (out, d). bias : (out,) or None.
    kept : indices of the features that stay, in the order in which the new weight has them.
    train, select, report : full moments (d) of the input. The ridge is chosen on ``select`` and
        the map refitted on both; without rows to choose on, the middle of the grid is taken.
    refit : False deletes the features and changes nothing else.
    ridges : grid, relative to the median eigenvalue of ``C`` on ``train``.
    scale : that eigenvalue, where it is known already.

    Raises
    ------
    GramianError : shapes that do not fit, diagonal moments, no rows, an unusable grid, indices
        out of range or repeated.
    """
    old, index, shift = _checked(weight, kept, train, bias)
    deleted = old[:, index]
    folds = {"train": train, "select": select, "report": report}
    there = {fold: m for fold, m in folds.items() if m is not None and m.count > 0}
    if not refit:
        gone = _missing(old, deleted, index)
        lost = {fold: _share(gone, m, None, old, shift) for fold, m in there.items()}
        return Reconstruction(Dense(deleted.contiguous()), lost, None)
    grid = _grid(ridges)
    unit = middle_eigenvalue(_second(train, shift)) if scale is None else scale
    taken = grid[len(grid) // 2]
    data, first = train, None
    objective = _objective(old, index, train, _centre(train, shift))
    if "select" in there:
        held = _objective(old, index, there["select"], _centre(train, shift))
        if len(grid) > 1:
            steps = [_step(objective, ridge * unit) for ridge in grid]
            best = min(range(len(grid)), key=lambda i: held.value(steps[i]))
            taken, first = grid[best], deleted + steps[best]
        data = train + there["select"]
        # Second moments about zero add; those about the mean are about another one.
        centre = _centre(data, shift)
        objective = objective + held if shift is None else _objective(old, index, data, centre)
    new = deleted + _step(objective, taken * unit * data.count / train.count)
    errors: dict[str, float] = {}
    for fold, moments in there.items():
        used, fit = (new, data) if fold == "report" or first is None else (first, train)
        missing = _missing(old, used, index)
        errors[fold] = _share(missing, moments, _centre(fit, shift), old, shift)
    map: LinearMap = Dense(new)
    if shift is not None:
        # b' = b + (W - W' P_J) mean
        map = Affine(map, shift + _missing(old, new, index) @ data.mean)
    return Reconstruction(map, errors, taken)


def _step(objective: Quadratic, ridge: float) -> Tensor:
    if ridge > 0:
        objective = objective + Quadratic.prior(torch.zeros_like(objective.B.T), ridge)
    return minimise(objective)[0]


def _objective(old: Tensor, index: Tensor, moments: Moments, centre: Tensor) -> Quadratic:
    """Squared error of adding ``D`` on the kept features: ``tr (G - D P_J) C (G - D P_J)^T`` with
    ``G`` the columns that are gone."""
    away = torch.ones(old.shape[1], dtype=torch.bool)
    away[index] = False
    second, gone = about(moments, centre), old[:, away]
    product = gone @ second[away]
    return Quadratic(
        second[index][:, index],
        product[:, index].T.contiguous(),
        float((product[:, away] * gone).sum()),
        moments.count,
    )


def _missing(old: Tensor, new: Tensor, index: Tensor) -> Tensor:
    """``E = W - W' P_J``, (out, d)."""
    missing = old.clone()
    missing[:, index] -= new
    return missing


def _centre(moments: Moments, shift: Tensor | None) -> Tensor:
    return torch.zeros_like(moments.mean) if shift is None else moments.mean


def _second(moments: Moments, shift: Tensor | None) -> Tensor:
    return moments.raw() if shift is None else moments.scatter


def _share(
    missing: Tensor, fold: Moments, centre: Tensor | None, old: Tensor, shift: Tensor | None
) -> float:
    """``tr(E C E^T)`` over ``sum |W x + b|^2``; nan where the output is zero."""
    around = torch.zeros_like(fold.mean) if centre is None else centre
    error = float(((missing @ about(fold, around)) * missing).sum())
    output = old @ fold.mean + (0.0 if shift is None else shift)
    length = float(((old @ fold.scatter) * old).sum()) + fold.count * float(output @ output)
    return max(0.0, error) / length if length > 0 else float("nan")


def _grid(ridges: Sequence[float]) -> list[float]:
    grid = [float(value) for value in ridges]
    if not grid or not all(0 <= value < float("inf") for value in grid):
        raise GramianError(f"ridges are {grid}, expected finite numbers of at least 0")
    return grid


def _checked(
    weight: Tensor, kept: Sequence[int] | Tensor, train: Moments, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    if train.is_diagonal:
        raise GramianError("the input has diagonal moments only; collect it with order='full'")
    if train.count <= 0:
        raise GramianError("the fold train has no rows; collect more text")
    old = weight.detach().to("cpu", torch.float64)
    if old.ndim != 2 or old.shape[1] != train.d:
        raise GramianError(
            f"weight of shape {tuple(weight.shape)}, expected (out, {train.d}), the width of the "
            "moments"
        )
    index = torch.as_tensor(kept, dtype=torch.long)
    good = index.ndim == 1 and len(index) > 0 and int(index.min()) >= 0
    if not good or int(index.max()) >= train.d or len(set(index.tolist())) < len(index):
        raise GramianError(f"kept must be indices from 0 to {train.d - 1}, each once, at least one")
    shift = None if bias is None else bias.detach().to("cpu", torch.float64)
    if shift is not None and tuple(shift.shape) != (old.shape[0],):
        raise GramianError(f"bias of shape {tuple(shift.shape)}, expected ({old.shape[0]},)")
    for name, tensor in (("weight", old), ("bias", shift), ("moments", train.scatter)):
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            raise GramianError(f"the {name} of the layer holds NaN or infinity")
    return old, index, shift
