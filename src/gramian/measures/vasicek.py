"""How near the principal components of rows are to a round normal distribution."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.moments import centre, float64_rows
from gramian.registry import method
from gramian.solvers.spectrum import eigh


@method("vrm", job="inspect", paper="2212.08172")
def vrm(rows: Any) -> float:
    """Vasicek ratio MSE: 0 for a round normal distribution, 1 for one direction.

    The rows are turned to their principal components and scaled so that their total variance is
    that of ``N(0, I)``, d; the entropy of every component by spacings (Vasicek 1976) is compared
    with a standard normal's. It needs the rows, not only their moments: it sees what is not
    normal too. The authors scale to a drawn sample; here to d itself, so nothing is random.

    Parameters
    ----------
    rows : (n, d) with n > d, in any float dtype.

    Raises
    ------
    GramianError : no more rows than dimensions, fewer than 5, NaN, or rows that do not vary.
    """
    x = float64_rows(rows, "rows")
    n, d = x.shape
    if n < max(5, d + 1):
        raise GramianError(
            f"vrm of {n} rows in {d} dimensions: it needs at least {max(5, d + 1)}; give more "
            "rows, or project them first"
        )
    centred = centre(x, None)[1]
    peak = float(centred.abs().max()) if d else 0.0
    if peak == 0:
        raise GramianError("vrm: the rows do not vary")
    centred = centred / peak
    scatter = centred.T @ centred
    scores = centred @ eigh((scatter + scatter.T) / 2)[1]
    scores = scores * math.sqrt(d * (n - 1) / float(scatter.trace()))
    # mean_j (1 - r_j)^2 with r_j = exp(h_j) / sqrt(2 pi e)
    ratios = (vasicek_entropy(scores) - 0.5 * math.log(2 * math.pi * math.e)).exp()
    return float((1.0 - ratios).square().mean())


def vasicek_entropy(rows: Tensor) -> Tensor:
    """Differential entropy in nats of every column of (n, d), from spacings; -inf where ties make
    a spacing zero.

    Equivalent to ``scipy.stats.differential_entropy(rows, method="vasicek")``.
    """
    n = len(rows)
    window = math.floor(math.sqrt(n) + 0.5)
    ordered = rows.sort(0).values
    index = torch.arange(n)
    upper = ordered[(index + window).clamp_max(n - 1)]
    lower = ordered[(index - window).clamp_min(0)]
    # mean_i ln( n / (2 m) (x_(i+m) - x_(i-m)) )
    return (n / (2.0 * window) * (upper - lower)).log().mean(0)
