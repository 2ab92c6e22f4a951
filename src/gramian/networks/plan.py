"""A plan: what a job wants to change, as data that can be read, saved and applied later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gramian.errors import GramianError
from gramian.maps.document import load_document, save_document, under
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.draft import Draft
from gramian.networks.moves import Move, decode, encode

_KIND, _VERSION = "gramian-plan", 1


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
        """A plan for this checkpoint; nothing is changed.

        Raises
        ------
        GramianError : the network cannot take one of the moves, or its blueprint was inferred
            rather than taken from a checked table.
        """
        draft = Draft.of(checkpoint)
        for move in moves:
            draft = move.rewrite(draft)
        return cls(checkpoint.name, checkpoint.digest, moves, dict(evidence))

    def __str__(self) -> str:
        count = "1 move" if len(self.moves) == 1 else f"{len(self.moves)} moves"
        lines = [f"Plan for {self.model} ({count}; nothing is changed yet)"]
        lines += [f"  {i + 1}. {move.describe()}" for i, move in enumerate(self.moves)]
        lines += [
            f"  {key}: {value}"
            for key, value in self.evidence.items()
            if not isinstance(value, (list, tuple, dict))
        ]
        return "\n".join(lines)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write to one safetensors file: moves as JSON in the header, maps as tensors."""
        moves: list[dict[str, Any]] = []
        tensors: dict[str, Tensor] = {}
        for i, move in enumerate(self.moves):
            described, own = encode(move)
            moves.append(described)
            # Moves may share one map; the file wants memory of its own for every tensor.
            tensors |= {f"{i}.{name}": tensor.detach().clone() for name, tensor in own.items()}
        document = {
            "model": self.model,
            "weights": self.weights,
            "moves": moves,
            "evidence": dict(self.evidence),
        }
        save_document(path, _KIND, _VERSION, document, tensors, force=force)

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a saved plan.

        Raises
        ------
        GramianError : not a plan, another version, or a damaged file.
        """
        header, tensors = load_document(path, _KIND, _VERSION)
        try:
            moves = tuple(
                decode(described, under(tensors, f"{i}."))
                for i, described in enumerate(header["moves"])
            )
            return cls(
                str(header["model"]), str(header["weights"]), moves, dict(header["evidence"])
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise GramianError(f"{path} is not a valid plan: {error!r}") from error
