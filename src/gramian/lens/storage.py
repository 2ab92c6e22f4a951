"""Casts in one safetensors file."""

from __future__ import annotations

from pathlib import Path

from gramian.errors import GramianError
from gramian.lens.casts import Cast, Casts
from gramian.maps import map_from
from gramian.maps.document import load_document, save_document, under
from gramian.solvers import Evidence

_KIND, _VERSION = "gramian-casts", 1


def save_casts(casts: Casts, path: str | Path, *, force: bool = False) -> None:
    """Write the maps as tensors and everything else as JSON in the header.

    Raises
    ------
    GramianError : the file exists and ``force`` is false.
    """
    tensors = {f"{i}.{k}": t for i, cast in enumerate(casts) for k, t in cast.map.tensors().items()}
    entries = [
        {
            "site": cast.site,
            "target": cast.target,
            "map": cast.map.spec(),
            "evidence": cast.evidence.to_json(),
        }
        for cast in casts
    ]
    document = {
        "model": casts.model,
        "target": casts.target,
        "kind": casts.kind,
        "casts": entries,
    }
    save_document(path, _KIND, _VERSION, document, tensors, force=force)


def load_casts(path: str | Path) -> Casts:
    """Read casts written by :func:`save_casts`.

    Raises
    ------
    GramianError : not such a file, another version, or damaged.
    """
    header, tensors = load_document(path, _KIND, _VERSION)
    try:
        casts = tuple(
            Cast(
                str(entry["site"]),
                str(entry["target"]),
                map_from(entry["map"], under(tensors, f"{i}.")),
                Evidence.from_json(entry["evidence"]),
            )
            for i, entry in enumerate(header["casts"])
        )
        return Casts(str(header["model"]), header["target"], header["kind"], casts)
    except (KeyError, TypeError, AttributeError) as error:
        raise GramianError(f"{path} is damaged: {error!r}") from error
