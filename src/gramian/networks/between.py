"""The residual stream at every two depths of a tower, compared row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gramian.networks.sites import BETWEEN

NUMBERS = 1 << 22
"""Of the stream at all depths, that are in float64 at a time."""


def places(depths: int) -> Iterator[tuple[int, int]]:
    """What the columns are of: (0, 1), (0, 2), ... of the stream at ``depths`` places."""
    first, second = torch.triu_indices(depths, depths, 1).tolist()
    return zip(first, second, strict=True)


def between(streams: Sequence[Tensor]) -> dict[str, Tensor]:
    """Rows of the sites ``cosines`` and ``distances``.

    Cosines are no function of second moments, and of distances a pair would keep far more than
    is asked for: as sites of their own they are summed, merged and kept apart from sinks like
    any other.

    Parameters
    ----------
    streams : (..., width) at every depth, in network order.

    Returns
    -------
    Site -> (..., pairs) float64, columns as of :func:`places`: the cosine of the rows at the two
    depths (0 where one of them is zero), and their squared distance.
    """
    flat = [stream.reshape(-1, stream.shape[-1]) for stream in streams]
    rows, width = flat[0].shape
    first, second = torch.triu_indices(len(flat), len(flat), 1, device=flat[0].device)
    block = max(1, NUMBERS // (len(flat) * width))
    cosines, distances = [], []
    for start in range(0, rows, block):
        stack = torch.stack([x[start : start + block].to(flat[0].device) for x in flat], 1).double()
        gram = stack @ stack.transpose(1, 2)
        squares = gram.diagonal(dim1=1, dim2=2)
        dots, a, b = gram[:, first, second], squares[:, first], squares[:, second]
        lengths = (a * b).sqrt()
        cosines.append(torch.where(lengths > 0, dots / lengths, torch.zeros_like(dots)))
        # From differences: |a|^2 + |b|^2 - 2 ab would lose what lies between two long rows.
        apart = torch.cdist(stack, stack, compute_mode="donot_use_mm_for_euclid_dist")
        distances.append(apart[:, first, second].square())
    shape = (*streams[0].shape[:-1], len(first))
    found = (torch.cat(cosines).clamp(-1.0, 1.0), torch.cat(distances))
    return {name: x.reshape(shape) for name, x in zip(BETWEEN, found, strict=True)}
