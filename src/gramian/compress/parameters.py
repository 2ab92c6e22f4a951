"""How many numbers a network stores, or some of its matrices."""

from __future__ import annotations

from collections.abc import Iterable

from gramian.networks.blueprint import Matrix
from gramian.networks.checkpoint import Checkpoint, state


def parameters_of(checkpoint: Checkpoint, matrices: Iterable[Matrix] | None = None) -> int:
    """Of some matrices with their biases, or of all tensors, tied ones once."""
    sizes = {name: tensor.numel() for name, tensor in state(checkpoint.skeleton).items()}
    if matrices is None:
        return sum(sizes.values())
    return sum(sizes[one.weight] + sizes.get(one.bias, 0) for one in matrices)
