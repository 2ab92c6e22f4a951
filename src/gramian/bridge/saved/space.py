"""One side of a bridge: which model made its vectors, and how."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from gramian.errors import GramianError
from gramian.moments.fields import Fields

WIDEST = 1 << 20


@dataclass(frozen=True)
class Space:
    """An embedding space: the model, the prompt before its texts, and what its vectors are.

    Raises
    ------
    GramianError : no name, or a width that no vector has.
    """

    name: str
    dim: int
    """Width of a vector."""
    model: str | None = None
    revision: str | None = None
    fingerprint: str | None = None
    """Of the weights; two models of one name and two fingerprints are two models."""
    prefix: str = ""
    """The prompt that the model's texts were given."""
    unit_norm: bool = False
    """Whether its vectors have length 1."""
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not self.name or not isinstance(self.name, str):
            raise GramianError(f"space: name is {self.name!r}, expected a text")
        if isinstance(self.dim, bool) or not isinstance(self.dim, int):
            raise GramianError(f"space {self.name!r}: dim is {self.dim!r}, expected an integer")
        if not 1 <= self.dim <= WIDEST:
            raise GramianError(f"space {self.name!r}: dim is {self.dim}, expected 1 to {WIDEST}")

    def to_json(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_json(cls, value: Fields) -> Space:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        GramianError : a field is missing, unknown or of another type.
        """
        optional = {
            name: None if value.value(name) is None else value.text(name)
            for name in ("model", "revision", "fingerprint")
        }
        space = cls(
            value.text("name"),
            value.integer("dim", 1),
            **optional,
            prefix=value.text("prefix"),
            unit_norm=value.flag("unit_norm"),
            dtype=value.text("dtype"),
        )
        value.close()
        return space

    def differs(self, other: Space) -> tuple[str, ...]:
        """What speaks against ``other`` being the same space, in words; empty when nothing does.

        A field that one of the two leaves open says nothing; the names are a person's own.
        """
        reasons = []
        for name in ("dim", "model", "revision", "fingerprint", "prefix"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None and mine != theirs:
                reasons.append(f"{name} {theirs!r} instead of {mine!r}")
        return tuple(reasons)

    def __str__(self) -> str:
        return f"{self.name} ({self.dim})"
