"""A plan: what a job wants to change, as data that can be read, saved and applied later."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import map_from
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.moves import DropLayers, FoldMap, FoldNorm, Move

_FORMAT = "gramian-plan"
_VERSION = 1


@dataclass(frozen=True)
class Plan:
    """Moves for one checkpoint, in order, with the evidence that led to them.

    ``weights`` is the digest of the weights that the plan was made for: ``apply`` refuses others.
    """

    model: str
    weights: str
    moves: tuple[Move, ...]
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, *moves: Move, evidence: Mapping[str, Any] = {}) -> Plan:
        """A plan for this checkpoint."""
        return cls(checkpoint.name, checkpoint.digest, moves, dict(evidence))

    def __str__(self) -> str:
        lines = [f"Plan for {self.model} ({len(self.moves)} moves; nothing is changed yet)"]
        lines += [f"  {i + 1}. {move.describe()}" for i, move in enumerate(self.moves)]
        lines += [f"  {key}: {value}" for key, value in self.evidence.items()]
        return "\n".join(lines)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write to one safetensors file: moves as JSON in the header, maps as tensors."""
        target = Path(path)
        if target.exists() and not force:
            raise GramianError(f"{target} exists; give another path or force=True")
        moves, tensors = [], {}
        for i, move in enumerate(self.moves):
            described, own = _encode(move)
            moves.append(described)
            tensors.update({f"{i}.{name}": t.contiguous() for name, t in own.items()})
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "model": self.model,
            "weights": self.weights,
            "moves": moves,
            "evidence": dict(self.evidence),
        }
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            save_file(tensors, temporary, metadata={_FORMAT: json.dumps(header)})
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a saved plan.

        Raises
        ------
        GramianError : not a plan, another version, or a damaged file.
        """
        try:
            with safe_open(str(path), framework="pt") as file:
                header = json.loads((file.metadata() or {}).get(_FORMAT, "null"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError) as error:
            raise GramianError(f"{path} cannot be read as a plan: {error}") from error
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise GramianError(f"{path} is not a plan; expected a file written by Plan.save")
        if header.get("version") != _VERSION:
            raise GramianError(
                f"{path} is a plan of version {header.get('version')}, this reads {_VERSION}; "
                "install the version of gramian that wrote it"
            )
        try:
            moves = tuple(
                _decode(described, _under(tensors, f"{i}."))
                for i, described in enumerate(header["moves"])
            )
            return cls(
                str(header["model"]), str(header["weights"]), moves, dict(header["evidence"])
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise GramianError(f"{path} is not a valid plan: {error!r}") from error


def _encode(move: Move) -> tuple[dict[str, Any], dict[str, Tensor]]:
    match move:
        case FoldNorm(norm):
            return {"kind": move.kind, "norm": norm}, {}
        case FoldMap(site, map_):
            return {"kind": move.kind, "site": site, "map": map_.spec()}, map_.tensors()
        case DropLayers(layers):
            return {"kind": move.kind, "layers": list(layers)}, {}
    raise GramianError(f"a move of kind {move.kind!r} cannot be saved")


def _decode(described: Mapping[str, Any], tensors: dict[str, Tensor]) -> Move:
    match described["kind"]:
        case "fold_norm":
            return FoldNorm(str(described["norm"]))
        case "fold_map":
            return FoldMap(str(described["site"]), map_from(described["map"], tensors))
        case "drop_layers":
            return DropLayers(tuple(int(i) for i in described["layers"]))
        case kind:
            raise GramianError(
                f"unknown move {kind!r}; this version knows fold_norm, fold_map and drop_layers"
            )


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
