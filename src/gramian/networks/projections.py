"""Where queries, keys and values are made: a matrix, or some of the outputs of one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint, Matrix, Tap
from gramian.networks.sites import parse

PROJECTED = ("q", "k", "v")


@dataclass(frozen=True)
class Projection:
    """The matrix behind a site ``<layer>.q``, ``.k`` or ``.v``, and which of its outputs it is."""

    site: str
    matrix: Matrix
    tap: Tap

    def outputs(self, total: int) -> Tensor | None:
        """Which of ``total`` outputs of the matrix are those of the site; None for all."""
        if self.tap.columns is None:
            return None
        start, stop = self.tap.columns
        return torch.arange(total).reshape(self.tap.groups, -1)[:, start:stop].flatten()

    def weight(self, stored: Tensor) -> Tensor:
        """The rows (width, in) of a stored weight that make this site, in float64."""
        turned = (stored.T if self.matrix.inputs_first else stored).double()
        rows = self.outputs(len(turned))
        return turned if rows is None else turned[rows]

    def bias(self, stored: Tensor | None) -> Tensor:
        """The entries (width,) of a stored bias, in float64; zeros where there is none."""
        if stored is None:
            return torch.zeros(self.tap.width, dtype=torch.float64)
        rows = self.outputs(len(stored))
        return stored.double() if rows is None else stored.double()[rows]


def projection(blueprint: Blueprint, name: str) -> Projection:
    """What makes the site ``<layer>.q``, ``<layer>.k`` or ``<layer>.v``.

    Raises
    ------
    GramianError : another site, or one that no matrix makes directly.
    """
    site = parse(blueprint.canonical(name))
    if site.layer is None or site.kind not in PROJECTED:
        raise GramianError(
            f"site {name!r} is not the output of a projection; expected <layer>.q, <layer>.k or "
            "<layer>.v"
        )
    tap = blueprint.tap(name)
    for reader in blueprint.readers(site.layer, site.tower):
        if reader.matrix.weight == f"{tap.path}.weight" and tap.side == "output":
            return Projection(blueprint.canonical(name), reader.matrix, tap)
    raise GramianError(
        f"site {name!r} of a {blueprint.model_type} network is not the output of a matrix that "
        "reads the residual stream"
    )
