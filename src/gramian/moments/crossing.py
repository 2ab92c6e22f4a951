"""What two coordinated sketches say about the rows that their parties share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.coordinated import CoordinatedSketch
from gramian.registry import method


def sketch_size(error: float, failure: float = 0.05) -> int:
    """Rows to keep so that ``|W - A^T B| <= error |A| |B|`` (Frobenius) but for a chance of
    ``failure``: ``k = 2 / (failure error^2) + 1``.

    Raises
    ------
    GramianError : an error or a chance that is not above 0, or a chance of 1 or more.
    """
    if not error > 0 or not 0 < failure < 1:
        raise GramianError(
            f"error {error} and failure {failure}, expected above 0 and between 0 and 1"
        )
    return math.ceil(2.0 / (failure * error * error) + 1.0)


def paired_rows(a: CoordinatedSketch, b: CoordinatedSketch) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the keys that both sketches kept, and their weights: what a fit takes.

    Returns ``(rows_a, rows_b, weight)`` in float64, of shapes (n, da), (n, db), (n,).
    ``JointMoments.from_rows(*paired_rows(a, b))`` is positive semidefinite, as a fit needs;
    estimates of the three products one by one are not. ``weight = 1 / chance of the pair``.

    Raises
    ------
    GramianError : sketches of different seeds, or rows in both and no key in common.
    """
    if a.seed != b.seed:
        raise GramianError(f"sketches of seeds {a.seed} and {b.seed} do not match; share one seed")
    place = {key: i for i, key in enumerate(b.keys)}
    pairs = [(i, place[key]) for i, key in enumerate(a.keys) if key in place]
    if not pairs and len(a) and len(b):
        raise GramianError(
            f"none of the {len(a)} and {len(b)} keys kept is in both sketches, for example "
            f"{a.keys[0]!r} and {b.keys[0]!r}; use the same names (a text and a number differ), or "
            "keep more rows"
        )
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    chance = torch.minimum(a.probabilities[left], b.probabilities[right])
    return a.rows[left].double(), b.rows[right].double(), 1.0 / chance


@method("coordinated_sampling", job="collect", paper="2501.17836")
def cross_estimate(a: CoordinatedSketch, b: CoordinatedSketch) -> Tensor:
    """Unbiased estimate of ``A^T B`` over the common keys, from two row sketches of one seed.

    ``W = sum a_i b_i^T / min(1, t_a |a_i|^2, t_b |b_i|^2)`` over the keys in both sketches, with
    ``t`` their thresholds; exact while both keep every row. The error is bounded as in
    `sketch_size`. ``cross_estimate(a, a)`` estimates ``A^T A``. For a cross scatter each party
    subtracts its own mean from its rows first; to fit a map use `paired_rows`.

    Returns
    -------
    (da, db) float64; zeros when a sketch holds no row.

    Raises
    ------
    GramianError : sketches of different seeds, or rows in both and no key in common.
    """
    left, right, weight = paired_rows(a, b)
    return (left * weight[:, None]).T @ right
