"""How many neurons stay."""

from __future__ import annotations

from gramian.errors import GramianError


def kept_width(neurons: int, share: float, *, multiple: int = 1) -> int:
    """The number of neurons nearest to a share of them that is a multiple, and all of them for 1.

    Half way between two multiples the larger is taken. Kernels like multiples of 64 or 128, and
    the k-quants of llama.cpp need 256.

    Raises
    ------
    GramianError : a multiple that is not positive, or one that leaves nothing to choose.
    """
    if multiple < 1:
        raise GramianError(f"multiple is {multiple}, expected at least 1")
    if share >= 1:
        return neurons
    if multiple > neurons:
        raise GramianError(
            f"no multiple of {multiple} is among the {neurons} neurons of a layer; give a smaller "
            "multiple"
        )
    wanted = share * neurons
    steps = max(1, int(wanted / multiple + 0.5))
    return min(steps * multiple, neurons)
