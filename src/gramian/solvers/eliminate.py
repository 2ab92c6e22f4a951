"""Take features from a linear layer one after the other, the one that is missed least first."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.registry import method
from gramian.solvers.leverage import precision

_PANEL = 64
"""Features taken between two updates of the whole matrices."""


@method("ziplm_elimination", job="solve", paper="2302.04089")
def eliminate(
    weight: Tensor,
    second: Tensor,
    number: int,
    *,
    ridge: float,
    block: int = 1,
    quota: Sequence[int] | None = None,
) -> Tensor:
    """Take input features from a linear layer by what its refitted output misses.

    With ``P = (C + lambda I)^-1``, taking the features ``B`` from the layer and refitting the
    rest adds ``tr(W_B P_BB^-1 W_B^T)`` to the error: Optimal Brain Surgeon for whole columns.
    Each time the cheapest goes, and ``W`` and ``P`` become those of the rest. Scaling a feature
    and its column against each other changes nothing, which plain norms and leverage do not
    offer.

    Parameters
    ----------
    weight : (out, d).
    second : (d, d), the second moments of the input.
    number : blocks to take.
    ridge : ``lambda`` above zero, in the units of ``second``.
    block : features that stay or go together, each block next to the other in ``d``.
    quota : (blocks,) labels from 0; as many of every label go. None: no such condition.

    Returns
    -------
    Indices of the blocks that stay, ascending.

    Raises
    ------
    GramianError : shapes or numbers that do not fit, NaN or infinity, a ridge not above zero.
    """
    d = second.shape[0]
    w = weight.detach().to("cpu", torch.float64).clone()
    if w.ndim != 2 or w.shape[1] != d or block < 1 or d % block:
        raise GramianError(
            f"weight of shape {tuple(weight.shape)} in blocks of {block}, expected (out, {d}) and "
            "a divisor of it"
        )
    count = d // block
    if not 0 <= number < count:
        raise GramianError(f"{number} of {count} blocks to take, expected 0 to {count - 1}")
    left = _quota(quota, count, number)
    if not number:
        return torch.arange(count)
    if not bool(torch.isfinite(w).all()):
        raise GramianError("the weight holds NaN or infinity")
    inverse = precision(second, ridge)
    if block == 1 and left is None:
        return _single(w, inverse, number)
    return _blocks(w, inverse, number, block, quota, left)


def _single(w: Tensor, p: Tensor, number: int) -> Tensor:
    """Single features, the matrices updated once for a panel of them."""
    d = len(p)
    alive = torch.ones(d, dtype=torch.bool)
    u, a = p.new_zeros(d, _PANEL), p.new_zeros(len(w), _PANEL)
    taken = 0
    for step in range(number):
        if taken == 0:
            diagonal, norms = p.diagonal().clone(), w.square().sum(0)
        cost = torch.where(alive, norms / diagonal.clamp_min(1e-300), torch.inf)
        chosen = int(cost.argmin())
        # u = P_:j / sqrt(P_jj), a = w_j / sqrt(P_jj):  P <- P - u u^T,  W <- W - a u^T
        column = p[:, chosen] - u[:, :taken] @ u[chosen, :taken]
        root = column[chosen].clamp_min(1e-300).sqrt()
        new_u = column / root
        new_a = (w[:, chosen] - a[:, :taken] @ u[chosen, :taken]) / root
        overlap = new_a @ w - u[:, :taken] @ (a[:, :taken].T @ new_a)
        norms = norms - 2.0 * new_u * overlap + new_u.square() * float(new_a @ new_a)
        norms.clamp_min_(0.0)
        diagonal = diagonal - new_u.square()
        alive[chosen] = False
        u[:, taken], a[:, taken] = new_u, new_a
        taken += 1
        if taken == _PANEL and step + 1 < number:
            p, w = p - u @ u.T, w - a @ u.T
            taken = 0
    return alive.nonzero().flatten()


def _blocks(
    w: Tensor,
    p: Tensor,
    number: int,
    block: int,
    quota: Sequence[int] | None,
    left: list[int] | None,
) -> Tensor:
    """Blocks of features, at most so many of every label."""
    alive = list(range(len(p) // block))
    for _ in range(number):
        best, least = -1, float("inf")
        for one in alive:
            if left is not None and quota is not None and not left[quota[one]]:
                continue
            own = slice(one * block, (one + 1) * block)
            solved = torch.linalg.solve(p[own, own], w[:, own].T)
            cost = float((w[:, own].T * solved).sum())
            if cost < least:
                best, least = one, cost
        own = slice(best * block, (best + 1) * block)
        # W <- W - W_B P_BB^-1 P_B:,  P <- P - P_:B P_BB^-1 P_B:
        solved = torch.linalg.solve(p[own, own], p[own])
        w, p = w - w[:, own] @ solved, p - p[:, own] @ solved
        alive.remove(best)
        if left is not None and quota is not None:
            left[quota[best]] -= 1
    return torch.tensor(alive)


def _quota(quota: Sequence[int] | None, count: int, number: int) -> list[int] | None:
    """How many may go of every label."""
    if quota is None:
        return None
    labels = set(quota)
    if len(quota) != count or labels != set(range(len(labels))) or number % len(labels):
        raise GramianError(
            f"{number} blocks to take by the labels {list(quota)}, expected {count} labels from 0 "
            "and a number that they share evenly"
        )
    return [number // len(labels)] * len(labels)
