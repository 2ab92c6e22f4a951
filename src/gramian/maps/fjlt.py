"""A fast random projection that keeps lengths: signs, a Hadamard rotation, a few entries."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.chain import Chain
from gramian.maps.diagonal import Diagonal
from gramian.maps.hadamard import Hadamard, padded
from gramian.maps.linear_map import LinearMap
from gramian.maps.sparse import Sparse
from gramian.maps.tags import Tag
from gramian.registry import method

KINDS = ("sparse", "rows")


@method("fjlt", job="collect", paper="2204.01800")
def fjlt(
    features: int,
    out: int,
    *,
    seed: int,
    kind: str = "sparse",
    density: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Chain:
    """Random projection to ``out`` coordinates that keeps squared lengths on average, fast.

    ``P H D x`` (Ailon and Chazelle): random signs, the orthonormal Walsh-Hadamard rotation of
    the next power of two (zeros appended), and a sparse random ``P``. A row costs
    O(d log d + entries of P) instead of O(d out), and the map stores d + 3 x entries numbers.
    Distances among n points are kept within a factor 1 +- eps for ``out`` of the order of
    ``log n / eps^2`` (scikit-learn's ``johnson_lindenstrauss_min_dim``).

    Parameters
    ----------
    features, out : widths of the input and of the output.
    seed : two maps of one seed are equal, on every machine.
    kind : ``"sparse"``: entries of P are N(0, 1/(out q)) with probability q, else zero.
        ``"rows"``: P takes ``out`` of the rotated coordinates, without repetition (a subsampled
        randomised Hadamard transform): cheaper, at most as wide as the padded input.
    density : q of the sparse kind, by default ``log(d)^2 / d``, at most 1.
    dtype : of the entries.

    Raises
    ------
    GramianError : an unknown kind, a width below 1, more rows than coordinates to take from, or a
        density outside (0, 1].
    """
    if kind not in KINDS:
        raise GramianError(f"kind is {kind!r}, expected {' or '.join(map(repr, KINDS))}")
    if features < 1 or out < 1:
        raise GramianError(f"a projection of {features} to {out} coordinates, expected 1 or more")
    if density is not None and kind == "rows":
        raise GramianError("density is of the sparse kind; kind='rows' takes whole rows")
    wide = padded(features)
    source = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (features,), generator=source) * 2 - 1
    turn = Diagonal(signs.to(dtype), tags={Tag.ORTHOGONAL})
    if kind == "rows":
        last = _rows(wide, out, source, dtype)
    else:
        last = _sparse(wide, out, density, source, dtype)
    factors: list[LinearMap] = [last, Hadamard(wide)]
    if wide > features:
        factors.append(Sparse.padding(features, wide, dtype))
    return Chain((*factors, turn))


def _rows(wide: int, out: int, source: torch.Generator, dtype: torch.dtype) -> Sparse:
    if out > wide:
        raise GramianError(
            f"{out} rows of a rotation of {wide} coordinates, expected at most {wide}; "
            "use kind='sparse'"
        )
    chosen = torch.randperm(wide, generator=source)[:out].sort().values
    values = torch.full((out,), math.sqrt(wide / out), dtype=dtype)
    return Sparse(values, torch.arange(out), chosen, (out, wide))


def _sparse(
    wide: int, out: int, density: float | None, source: torch.Generator, dtype: torch.dtype
) -> Sparse:
    q = min(1.0, max(math.log(wide), 1.0) ** 2 / wide) if density is None else density
    if not 0 < q <= 1:
        raise GramianError(f"density is {q}, expected a number above 0 and at most 1")
    rows: list[Tensor] = []
    columns: list[Tensor] = []
    for row in range(out):
        found = torch.nonzero(torch.rand(wide, generator=source) < q).flatten()
        rows.append(torch.full_like(found, row))
        columns.append(found)
    place = torch.cat(columns)
    values = torch.randn(len(place), generator=source, dtype=torch.float64) / math.sqrt(out * q)
    return Sparse(values.to(dtype), torch.cat(rows), place, (out, wide))
