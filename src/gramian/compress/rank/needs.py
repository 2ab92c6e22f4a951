"""Which moments tell of the rank of every linear."""

from __future__ import annotations

from gramian.compress.rank.matrices import linears_of
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs
from gramian.networks.needs import rank as second_moments


def needs(checkpoint: Checkpoint) -> Needs:
    """Second moments of what the linears read, and of what every MLP's last one gives.

    Of the input of that last one the diagonal is collected too, which the metric ``diag`` and
    shrinkage read; it costs next to nothing.
    """
    wide = [linear for linear in linears_of(checkpoint) if linear.outputs is not None]
    return second_moments(checkpoint) + Needs.of(
        Need(linear.inputs, order="diagonal") for linear in wide
    )
