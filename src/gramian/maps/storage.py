"""Maps in files: safetensors, with the kind, the shape and the tags in the header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gramian.errors import GramianError, refuse_existing
from gramian.maps.affine import Affine
from gramian.maps.blast import Blast
from gramian.maps.block_diagonal import BlockDiagonal
from gramian.maps.chain import Chain
from gramian.maps.dense import Dense
from gramian.maps.diagonal import Diagonal
from gramian.maps.hadamard import Hadamard
from gramian.maps.identity import Identity
from gramian.maps.identity_plus import IdentityPlus
from gramian.maps.linear_map import LinearMap
from gramian.maps.low_rank import LowRank
from gramian.maps.monarch import Monarch
from gramian.maps.permutation import Permutation
from gramian.maps.sparse import Sparse
from gramian.maps.sum import Sum
from gramian.maps.tags import as_tags

VERSION = "1"
KINDS: dict[str, type[LinearMap]] = {
    kind.__name__: kind
    for kind in (
        Identity,
        Diagonal,
        Permutation,
        Hadamard,
        Sparse,
        Dense,
        LowRank,
        IdentityPlus,
        BlockDiagonal,
        Monarch,
        Blast,
        Chain,
        Sum,
        Affine,
    )
}
_DEPTH = 8


def map_from(spec: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> LinearMap:
    """The map of a `LinearMap.spec` and its `LinearMap.tensors`.

    Raises
    ------
    GramianError : unknown kind, missing or superfluous tensors, shapes that contradict the spec.
    """
    rest = dict(tensors)
    result = _build(spec, rest, "", 0)
    if rest:
        raise GramianError(f"tensors {sorted(rest)} belong to no part of {result!r}")
    return result


def _build(spec: Any, tensors: dict[str, Tensor], prefix: str, depth: int) -> LinearMap:
    where = f"the map {prefix.rstrip('.')!r}" if prefix else "the map"
    if depth > _DEPTH:
        raise GramianError(f"maps are nested more than {_DEPTH} deep")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("kind"), str):
        raise GramianError(f"{where} has no kind in its spec")
    kind = KINDS.get(spec["kind"])
    if kind is None:
        raise GramianError(
            f"{where} has the unknown kind {spec['kind']!r}; the kinds are {', '.join(KINDS)}"
        )
    shape, tags, inner = spec.get("shape"), spec.get("tags", []), spec.get("parts", {})
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)):
        raise GramianError(f"{where} has shape {shape!r} in its spec, expected [out, in]")
    if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise GramianError(f"{where} has tags {tags!r} in its spec, expected a list of names")
    if not isinstance(inner, Mapping):
        raise GramianError(f"{where} has parts {inner!r} in its spec, expected named specs")
    missing = [name for name in kind.tensor_names if prefix + name not in tensors]
    if missing:
        raise GramianError(f"{where} is a {spec['kind']} and lacks its tensors {missing}")
    own = {name: tensors.pop(prefix + name) for name in kind.tensor_names}
    parts = {
        name: _build(part, tensors, f"{prefix}{name}.", depth + 1) for name, part in inner.items()
    }
    try:
        result = kind.assemble((shape[0], shape[1]), own, parts, as_tags(tags))
    except (KeyError, TypeError):
        raise GramianError(
            f"{where} is a {spec['kind']} that cannot have the parts {sorted(parts)}"
        ) from None
    if set(result.parts()) != set(parts) or result.shape != tuple(shape):
        raise GramianError(
            f"{where} is {result!r} by its tensors and has shape {shape} and parts "
            f"{sorted(parts)} in its spec"
        )
    return result


def _digest(spec: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(spec.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, contiguous, no two in the same memory: what safetensors writes."""
    seen: set[int] = set()
    result = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        result[name] = plain.clone() if memory in seen else plain
        seen.add(memory)
    return result


def save_map(map: LinearMap, path: str | Path, *, force: bool = False) -> Path:
    """Write a map to one safetensors file, whole or not at all.

    Raises
    ------
    GramianError : the file exists and ``force`` is off, or it cannot be written.
    """
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise GramianError(f"cannot write {path}: it is a folder, or its folder does not exist")
    refuse_existing(path, force=force)
    spec, tensors = json.dumps(map.spec()), _plain(map.tensors())
    metadata = {"gramian.map": VERSION, "spec": spec, "sha256": _digest(spec, tensors)}
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file(tensors, partial, metadata=metadata)
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise GramianError(f"cannot write {path}: {error}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return path


def load_map(path: str | Path) -> LinearMap:
    """Read a map that `LinearMap.save` wrote, and verify it.

    Raises
    ------
    GramianError : no such file, not a map, another version, truncated or altered.
    """
    path = Path(path)
    if not path.is_file():
        raise GramianError(f"{path} is no file; expected a map written by save()")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise GramianError(f"{path} is no readable safetensors file: {error}") from error
    if "gramian.map" not in metadata:
        raise GramianError(f"{path} is a safetensors file and holds no map written by save()")
    if metadata["gramian.map"] != VERSION:
        raise GramianError(
            f"{path} has format version {metadata['gramian.map']!r}, this release reads {VERSION}; "
            "use a newer release"
        )
    spec = metadata.get("spec", "")
    if metadata.get("sha256") != _digest(spec, tensors):
        raise GramianError(f"{path} was altered or damaged: its SHA-256 does not match")
    try:
        return map_from(json.loads(spec), tensors)
    except GramianError as error:
        raise GramianError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise GramianError(f"{path} holds a spec that is no JSON: {error}") from error
