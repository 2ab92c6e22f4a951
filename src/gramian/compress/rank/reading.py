"""The moments of one linear, from a set."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.compress.rank.matrices import Linear, scale_of
from gramian.moments import Moments, MomentSet
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs

FIT = ("train", "select")
"""Folds that factors are solved from; nothing is chosen on one of them alone."""


@dataclass(frozen=True, eq=False)
class Sides:
    """What is known of a linear on some rows: moments of its input, or of ``W x``."""

    inputs: Moments | None
    outputs: Moments | None

    @property
    def count(self) -> float:
        """Rows."""
        found = self.inputs if self.outputs is None else self.outputs
        assert found is not None
        return found.count

    def power(self, weight: Tensor) -> float:
        """``E |W x|^2``."""
        if self.outputs is not None:
            second = self.outputs
            return second.trace / second.count + float(second.mean.square().sum())
        assert self.inputs is not None
        w = weight.double()
        return float(((w @ self.inputs.raw()) * w).sum()) / self.inputs.count


@dataclass(frozen=True)
class Reading:
    """Reads the moments of linears; those of one site once for all that read it."""

    checkpoint: Checkpoint
    moments: MomentSet

    def narrow(self, linear: Linear) -> bool:
        """Whether the moments of its output stand for those of its input."""
        return linear.outputs is not None and linear.outputs in self.moments.sites

    def require(self, linears: tuple[Linear, ...], *, diagonals: bool) -> None:
        """Refuse moments of other weights or without what these linears need.

        diagonals : of inputs too, where those of the outputs are read.

        Raises
        ------
        GramianError : as said; the message names ``--for rank``.
        """
        wanted = []
        for linear in linears:
            given = linear.inputs in self.moments.sites
            if self.narrow(linear) or (linear.outputs is not None and not given):
                wanted.append(Need(str(linear.outputs)))
                if diagonals:
                    wanted.append(Need(linear.inputs, order="diagonal"))
            else:
                wanted.append(Need(linear.inputs))
        Needs.of(wanted).require(self.checkpoint, self.moments, "rank")

    def fit(self, linear: Linear, *, diagonals: bool) -> Sides:
        """All rows of ``train`` and ``select``, sinks among them: layers must still make these."""
        return self._sides(linear, FIT, sinks=True, diagonals=diagonals)

    def typical(self, linear: Linear) -> Sides:
        """The same without the sink rows, whose length says nothing of the others."""
        return self._sides(linear, FIT, sinks=False, diagonals=False)

    def report(self, linear: Linear) -> Sides | None:
        """The rows of ``report`` without sinks; None where that fold has none."""
        if "report" not in self.moments.folds:
            return None
        found = self._sides(linear, ("report",), sinks=False, diagonals=False)
        return found if found.count > 0 else None

    def _sides(
        self, linear: Linear, folds: tuple[str, ...], *, sinks: bool, diagonals: bool
    ) -> Sides:
        there = tuple(fold for fold in folds if fold in self.moments.folds)
        if not self.narrow(linear):
            return Sides(self.moments.moments(linear.inputs, there, sinks), None)
        given = self.moments.moments(str(linear.outputs), there, sinks)
        outputs = self._without_bias(linear, given)
        inputs = self.moments.moments(linear.inputs, there, sinks) if diagonals else None
        return Sides(inputs, outputs)

    def _without_bias(self, linear: Linear, found: Moments) -> Moments:
        """Moments of ``W x`` from those of ``s (W x + b)``."""
        scale = scale_of(self.checkpoint, str(linear.outputs))
        bias = linear.bias(self.checkpoint)
        mean = found.mean / scale
        if bias is not None:
            mean = mean - bias.to("cpu", torch.float64)
        return Moments(found.count, found.count2, mean, found.scatter / scale**2)
