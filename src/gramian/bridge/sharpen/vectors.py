"""Vectors of whole texts, whitened."""

from __future__ import annotations

from typing import Any

from gramian.bridge.rows import as_matrix
from gramian.bridge.sharpen.sums import moments_of
from gramian.maps import Affine
from gramian.moments import Moments
from gramian.registry import method
from gramian.solvers import whitening


@method("bert_whitening", job="bridge", paper="2103.15316")
def whiten_vectors(
    vectors: Any, *, kind: str = "pca", rank: int | None = None, ridge: float = 0.0
) -> Affine:
    """Affine map that takes the vectors of texts to mean zero and equal variances.

    For similarity of texts by cosine, where a few strong directions make all vectors look alike;
    of little use before a classifier, which learns its own scales. Divide by the length after it:
    exported as a Dense module it stands before a Normalize.

    Parameters
    ----------
    vectors : (n, d), or their moments. Of text as it is searched: whitening is of its domain.
    kind, rank, ridge : as in `gramian.solvers.whitening`; ``rank`` leading directions make the
        vectors narrower.

    Raises
    ------
    GramianError : as `gramian.solvers.whitening`, or NaN in a row.
    """
    moments = vectors if isinstance(vectors, Moments) else moments_of(as_matrix(vectors, "vectors"))
    return whitening(moments, kind=kind, rank=rank, ridge=ridge)
