"""What carried vectors say of themselves: their model, and the bridge and source they came by."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import torch

from gramian.bridge.saved import SavedBridge
from gramian.bridge.vectors import Address, VectorSource
from gramian.errors import GramianError

HEAD = 16
"""Rows at the front of a source by which it is known again."""


def digest(bridge: SavedBridge) -> str:
    """SHA-256 of what a bridge does to rows: its map, spaces, direction and normalisation."""
    what = {
        "source": bridge.source.to_json(),
        "target": bridge.target.to_json(),
        "direction": bridge.direction,
        "normalise": bridge.normalise,
    }
    found = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
    zero = torch.zeros(bridge.source.dim, dtype=torch.float64)
    for part in (bridge.map.to_dense(torch.float64), bridge.map.to(dtype=torch.float64)(zero)):
        found.update(np.ascontiguousarray(part.numpy()).data)
    return found.hexdigest()


def place_of(source: VectorSource) -> str:
    """The address of a source, the same however it is spelled, without a password."""
    try:
        address = Address.parse(source.address)
    except GramianError:
        return source.address
    if "://" in address.place:
        return without_password(source.address)
    part = "" if address.part is None else f"#{address.part}"
    return f"{address.kind}:{address.path.resolve()}{part}"


def without_password(url: str) -> str:
    """A URL whose password and query, which may hold another, are left out."""
    kind, colon, rest = url.partition(":")
    nested = kind == "qdrant" and colon
    parts = urlsplit(rest if nested else url)
    user, at, host = parts.netloc.rpartition("@")
    netloc = f"{user.partition(':')[0]}{at}{host}"
    plain = urlunsplit((parts.scheme, netloc, parts.path, "", parts.fragment))
    return f"{kind}:{plain}" if nested else plain


def purpose(bridge: SavedBridge, source: VectorSource, *, dtype: str = "float32") -> dict[str, str]:
    """What a result will be; only a run of the same purpose goes on with one left in part."""
    found = hashlib.sha256()
    head = next(source.batches(HEAD), None)
    if head is not None:
        found.update(json.dumps(head.ids[:HEAD]).encode())
        found.update(np.ascontiguousarray(head.vectors[:HEAD]).data)
    return {
        "bridge": digest(bridge),
        "source": place_of(source),
        "source_rows": "" if source.count is None else str(source.count),
        "source_head": found.hexdigest(),
        "dtype": dtype,
    }


def stamp_for(
    bridge: SavedBridge, source: VectorSource, *, dtype: str = "float32"
) -> dict[str, str]:
    """What is known of the vectors that a bridge makes of a source; nothing where nothing is."""
    target = bridge.target
    known = {
        "model": target.model or target.name,
        "revision": target.revision,
        "fingerprint": target.fingerprint,
        "prefix": target.prefix,
        "dtype": dtype,
        "unit_norm": str(bridge.normalise).lower(),
        "bridge": digest(bridge),
        "direction": bridge.direction,
        "method": bridge.method,
        "bridged_from": bridge.source.model or bridge.source.name,
        "source": place_of(source),
    }
    return {key: value for key, value in known.items() if value is not None}
