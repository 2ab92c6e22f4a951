"""Which neurons of one MLP stay."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gramian.compress.narrowing import Narrowing, kept_by
from gramian.errors import GramianError
from gramian.solvers.eliminate import eliminate
from gramian.solvers.leverage import ridge_leverage
from gramian.solvers.nystrom import leading_columns

Selection = Literal["eliminate", "leverage", "pivoted", "norm"]
SELECTIONS: tuple[Selection, ...] = get_args(Selection)
"""How neurons are chosen."""

RIDGE = 1.0
"""Of the leverage, relative to the median eigenvalue of the neurons' second moments."""


def choose(layer: Narrowing, number: int, select: Selection) -> Tensor:
    """The neurons that stay, ascending.

    ``eliminate`` takes them one by one by what the refitted output then misses, ``leverage``
    keeps those that others cannot stand for (ridge leverage scores of the neurons alone),
    ``pivoted`` picks one after the other the neuron with most output that those before leave
    unexplained, ``norm`` keeps those that add most to the output by themselves.

    Raises
    ------
    GramianError : an unknown selection.
    """
    if select not in SELECTIONS:
        raise GramianError(f"select is {select!r}, expected one of {', '.join(SELECTIONS)}")
    d = layer.train.d
    if number >= d:
        return torch.arange(d)
    if select == "norm":
        return kept_by(layer.energy, number)
    if select == "eliminate":
        return eliminate(layer.weight, layer.second, d - number, ridge=layer.noise)
    if select == "leverage":
        scores = ridge_leverage(layer.second, RIDGE * layer.scale)
        # Where many scores are as good as 1, what the neuron adds decides.
        return kept_by(scores, number)
    return _pivoted(layer, number)


def _pivoted(layer: Narrowing, number: int) -> Tensor:
    """Pivoted Cholesky of ``D C D``, ``D`` the lengths of the columns that read the neurons."""
    lengths = layer.weight.square().sum(0).sqrt()
    first = leading_columns(lengths[:, None] * layer.second * lengths, number)
    scores = layer.energy.clone()
    # Behind the rank of C nothing is left to explain; by energy then.
    scores[first] = torch.inf
    return kept_by(scores, number)
