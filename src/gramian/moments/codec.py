"""Moments to the tensors of a part and back, checking every number that comes back."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.quartic import CrossQuartic, Quartic
from gramian.moments.reservoir import Reservoir
from gramian.moments.tiles import (
    from_unit,
    is_finite,
    pack,
    packed_diagonal,
    to_unit,
    unit_scale,
    unpack,
)

Read = Callable[[str], Tensor | None]
"""The tensor of a name inside one fold of one part, or None where it is not stored."""


def file_name(kind: str, names: tuple[str, ...], increment: bool) -> str:
    """A plain and unique file name for a part: readable, with a hash where names are not plain."""
    readable = "--".join(names)
    plain = re.sub(r"[^a-z0-9._-]+|\.\.+", "_", readable)[:120].strip(".")
    plain = plain or "_" * len(names)
    ambiguous = plain != readable or any("--" in n or n.endswith(".increment") for n in names)
    key = json.dumps([kind, *names, increment]).encode()
    pieces = [kind, plain, "increment" if increment else ""]
    if ambiguous:
        pieces.append(hashlib.sha256(key).hexdigest()[:12])
    return ".".join(piece for piece in pieces if piece) + ".safetensors"


def encode_moments(moments: Moments, prefix: str, storage: str) -> dict[str, Tensor]:
    """The tensors of one block of moments; full scatters as packed tiles."""
    tensors = {
        "sums": torch.tensor([moments.count, moments.count2], dtype=torch.float64),
        "mean": moments.mean,
    }
    if moments.is_diagonal:
        tensors["scatter"] = moments.scatter
    elif storage == "float64":
        tensors["scatter"] = pack(moments.scatter)
    else:
        scale = unit_scale(moments.variances)
        tensors["scatter"] = pack(to_unit(moments.scatter, scale, scale))
        tensors["scatter.scale"] = scale
    if moments.quartic is not None:
        tensors["quartic.vector"] = moments.quartic.vector
        tensors["quartic.square"] = torch.tensor([moments.quartic.square], dtype=torch.float64)
    return {prefix + name: _finite(tensor, name) for name, tensor in tensors.items()}


def encode_joint(joint: JointMoments, prefix: str, storage: str) -> dict[str, Tensor]:
    """The tensors of one block of joint moments: the diagonal of y, the cross, never x."""
    tensors = {"cross": joint.cross}
    if storage == "float32":
        left, right = unit_scale(joint.x.variances), unit_scale(joint.y.variances)
        tensors["cross"] = to_unit(joint.cross, left, right)
        tensors |= {"cross.left": left, "cross.right": right}
    if joint.quartic is not None:
        tensors |= {
            "quartic.xy": joint.quartic.xy,
            "quartic.yx": joint.quartic.yx,
            "quartic.product": torch.tensor([joint.quartic.product], dtype=torch.float64),
        }
    encoded = {prefix + name: _finite(tensor, name) for name, tensor in tensors.items()}
    return encoded | encode_moments(joint.y.diagonal(), f"{prefix}y.", storage)


def encode_reservoir(reservoir: Reservoir) -> dict[str, Tensor]:
    """The tensors of a reservoir: rows, document digests, character offsets, capacity."""
    digests = torch.empty(len(reservoir), 32, dtype=torch.uint8)
    for row, (digest, _) in zip(digests, reservoir.keys, strict=True):
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise GramianError(f"reservoir key {digest!r} is not a hexadecimal SHA-256")
        row.copy_(torch.frombuffer(bytearray.fromhex(digest), dtype=torch.uint8))
    return {
        "rows": _finite(reservoir.rows, "rows"),
        "digests": digests,
        "offsets": torch.tensor([offset for _, offset in reservoir.keys], dtype=torch.int64),
        "capacity": torch.tensor([reservoir.k], dtype=torch.int64),
    }


def decode_reservoir(read: Read, where: str) -> Reservoir:
    """The reservoir back from its tensors."""
    checked = _Checked(read, "", where)
    rows, digests, offsets = checked("rows"), checked("digests"), checked("offsets")
    capacity = int(checked("capacity"))
    if not len(rows) == len(digests) == len(offsets) <= max(capacity, 1) or capacity < 1:
        raise GramianError(
            f"{where}: {len(rows)} rows, {len(digests)} documents and {len(offsets)} offsets in a "
            f"reservoir of {capacity}"
        )
    reservoir = Reservoir(capacity, rows.shape[1], dtype=rows.dtype)
    names = [bytes(digest.numpy()).hex() for digest in digests]
    reservoir.update(list(zip(names, offsets.tolist(), strict=True)), rows)
    return reservoir


def decode_moments(
    read: Read, prefix: str, d: int, full: bool, where: str, diagonal: bool = False
) -> Moments | None:
    """One block of moments, or None where the fold has none.

    Args:
        read: gives the tensors of the fold.
        prefix: of the block's names.
        d: width of a row.
        full: whether the scatter is stored in full.
        where: the file, for messages.
        diagonal: give the diagonal only, without unpacking a full scatter.

    Raises:
        GramianError: a number that no rows can have left behind; the message names the file.
    """
    sums = read(f"{prefix}sums")
    if sums is None:
        return None
    checked = _Checked(read, prefix, where)
    count, count2 = checked("sums").tolist()
    if count < 0 or count2 < 0:
        raise GramianError(f"{where}: '{prefix}sums' holds a negative count: {count}, {count2}")
    scatter, scale = checked("scatter"), checked.optional("scatter.scale")
    variances = packed_diagonal(scatter, d).to(torch.float64) if full else scatter
    if scale is not None:
        if not bool((scale > 0).all()):
            raise GramianError(f"{where}: '{prefix}scatter.scale' is not above 0 everywhere")
        variances = from_unit(variances[:, None], scale, scale.new_ones(1))[:, 0] * scale
    # A sum of squares; rounding of a large mean may leave a constant column just below zero.
    if bool((variances < -1e-6 * variances.abs().max()).any()):
        raise GramianError(f"{where}: '{prefix}scatter' has a negative diagonal")
    if full and not diagonal:
        square = unpack(scatter, d)
        scatter = square if scale is None else from_unit(square, scale, scale)
    else:
        scatter = variances
    quartic, vector = None, checked.optional("quartic.vector")
    if vector is not None and scatter.ndim == 2:
        quartic = Quartic(vector, float(checked("quartic.square")))
    return Moments(count, count2, checked("mean"), scatter, quartic)


def decode_joint(read: Read, prefix: str, x: Moments, dy: int, where: str) -> JointMoments | None:
    """One block of joint moments given those of its source, or None where the fold has none."""
    y = decode_moments(read, f"{prefix}y.", dy, False, where)
    if y is None:
        return None
    checked = _Checked(read, prefix, where)
    cross, left = checked("cross"), checked.optional("cross.left")
    if left is not None and cross.dtype == torch.float32:
        cross = from_unit(cross, left, checked("cross.right"))
    quartic, xy = None, checked.optional("quartic.xy")
    if xy is not None:
        yx, product = checked("quartic.yx"), float(checked("quartic.product"))
        quartic = CrossQuartic(xy, yx, product)
    if abs(x.count - y.count) > 1e-9 * max(x.count, 1.0):
        raise GramianError(
            f"{where}: the pair has {y.count:g} rows in the block {prefix!r}, its source has "
            f"{x.count:g}"
        )
    return JointMoments(x, y, cross, quartic)


class _Checked:
    """Reads tensors of one block, each finite."""

    def __init__(self, read: Read, prefix: str, where: str) -> None:
        self.read, self.prefix, self.where = read, prefix, where

    def optional(self, name: str) -> Tensor | None:
        tensor = self.read(self.prefix + name)
        if tensor is not None and not is_finite(tensor):
            raise GramianError(f"{self.where}: '{self.prefix}{name}' holds NaN or infinity")
        return tensor

    def __call__(self, name: str) -> Tensor:
        tensor = self.optional(name)
        if tensor is None:
            raise GramianError(f"{self.where}: '{self.prefix}{name}' is missing")
        return tensor


def _finite(tensor: Tensor, name: str) -> Tensor:
    if not is_finite(tensor):
        raise GramianError(f"moments to be stored hold NaN or infinity in {name!r}")
    return tensor.detach()
