"""The sizes of a network that resizing changes."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.errors import GramianError
from gramian.networks import Checkpoint
from gramian.networks.attention_heads import attention_heads
from gramian.networks.draft import Draft


@dataclass(frozen=True)
class Shape:
    """How wide and deep a dense network is."""

    width: int
    """Features of the residual stream."""
    mlp: int
    """Neurons of one MLP; 0 where experts have neurons of their own."""
    heads: int
    """Query heads of one layer."""
    keys: int
    """Heads of keys and values."""
    head_dim: int
    layers: int

    def to_json(self) -> dict[str, int]:
        """Every size by its name."""
        return {
            "width": self.width,
            "mlp": self.mlp,
            "heads": self.heads,
            "key_heads": self.keys,
            "head_dim": self.head_dim,
            "layers": self.layers,
        }


def shape_of(checkpoint: Checkpoint | Draft) -> Shape:
    """The shape of a network, from its configuration.

    Raises
    ------
    GramianError : layers with MLPs of different widths, or heads that are not known.
    """
    plan = checkpoint.blueprint
    heads = attention_heads(plan, checkpoint.config, 0)
    inner = {layer.taps["mlp_mid"].width if "mlp_mid" in layer.taps else 0 for layer in plan.layers}
    return Shape(
        width=plan.width,
        mlp=inner.pop() if len(inner) == 1 else 0,
        heads=heads.count,
        keys=heads.keys,
        head_dim=heads.width,
        layers=plan.depth,
    )


def positive(value: int, what: str) -> int:
    """The value itself, when it is an integer of at least 1."""
    if type(value) is not int or value < 1:
        raise GramianError(f"{what} is {value!r}, expected a whole number of at least 1")
    return value


def require_dense(shape: Shape, model_type: str) -> None:
    """Raise where neurons are those of experts."""
    if not shape.mlp:
        raise GramianError(
            f"this {model_type} network has experts, each with neurons of its own: widths change "
            "in dense networks only. Give --layers alone (layers=) to change its depth"
        )
