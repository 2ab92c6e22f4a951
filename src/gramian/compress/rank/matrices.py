"""The linears of a network whose rank can be cut, and the sites that tell of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Layer, Matrix, Tap
from gramian.networks.checkpoint import Checkpoint

READ = {"attn_out": "z", "mlp_out": "mlp_mid"}
"""What a writer adds to the stream -> what its matrix reads."""


@dataclass(frozen=True)
class Linear:
    """One linear of a block."""

    matrix: Matrix
    layer: int
    inputs: str
    """The site that it reads."""
    outputs: str | None
    """The site that is its output and nothing else, for the last matrix of an MLP."""
    shape: tuple[int, int]
    """(out, in)."""

    @property
    def part(self) -> str:
        """``q_proj`` of ``model.layers.3.self_attn.q_proj.weight``."""
        return self.matrix.weight.removesuffix(".weight").rpartition(".")[2]

    @property
    def whole(self) -> int:
        """Parameters of the weight."""
        return self.shape[0] * self.shape[1]

    @property
    def has_slot(self) -> bool:
        """Whether it has a bias, or can be given one."""
        return self.matrix.has_bias or self.matrix.bias_flag is not None

    def weight(self, checkpoint: Checkpoint) -> Tensor:
        """(out, in), whichever way round it is stored."""
        stored = checkpoint.model.get_parameter(self.matrix.weight).detach()
        return stored.T if self.matrix.inputs_first else stored

    def bias(self, checkpoint: Checkpoint) -> Tensor | None:
        """(out,), or None."""
        if not self.matrix.has_bias:
            return None
        return checkpoint.model.get_parameter(self.matrix.bias).detach()


def linears_of(checkpoint: Checkpoint) -> tuple[Linear, ...]:
    """Every linear of every block, in network order. The head and the embeddings are none, nor
    are routers and experts, whose inputs are not those of all tokens.

    Raises
    ------
    GramianError : there is none.
    """
    prefix = checkpoint.blueprint.main.prefix
    found: dict[str, Linear] = {}
    for layer in checkpoint.blueprint.layers:
        for matrix, site, written in _parts(layer, prefix):
            shape = _shape(checkpoint, matrix)
            if shape is not None and site in _sites(layer, prefix):
                own = written if written in _sites(layer, prefix) else None
                found.setdefault(matrix.weight, Linear(matrix, layer.index, site, own, shape))
    if not found:
        raise GramianError(
            f"{checkpoint.name} (a {checkpoint.blueprint.model_type} network) has no linear in its "
            "blocks whose input is known"
        )
    return tuple(found.values())


def scale_of(checkpoint: Checkpoint, site: str) -> float:
    """What the network multiplies a matrix's output by to make a site."""
    tap: Tap = checkpoint.blueprint.tap(site)
    return tap.scale


def left_out(checkpoint: Checkpoint) -> int:
    """How many expert tensors there are, which stay as they are."""
    blueprint = checkpoint.blueprint
    matrices = [r.matrix for layer in blueprint.layers for r in layer.readers]
    matrices += [w.matrix for layer in blueprint.layers for w in layer.outputs]
    return len({matrix.weight for matrix in matrices if matrix.is_experts})


def _parts(layer: Layer, prefix: str) -> list[tuple[Matrix, str, str | None]]:
    """A matrix, what it reads, and the site that is its output."""
    parts: list[tuple[Matrix, str, str | None]] = [
        (reader.matrix, reader.site, None) for reader in layer.readers
    ]
    for writer in layer.outputs:
        kind = writer.site.rpartition(".")[2]
        if kind in READ:
            own = writer.site if kind == "mlp_out" and kind in layer.writers else None
            parts.append((writer.matrix, f"{prefix}{layer.index}.{READ[kind]}", own))
    return parts


def _sites(layer: Layer, prefix: str) -> set[str]:
    return {f"{prefix}{layer.index}.{kind}" for kind in layer.taps}


def _shape(checkpoint: Checkpoint, matrix: Matrix) -> tuple[int, int] | None:
    """(out, in) of a linear; None for an expert tensor or a router."""
    from transformers.pytorch_utils import Conv1D

    if matrix.is_experts:
        return None
    owner = checkpoint.skeleton.get_submodule(matrix.weight.rpartition(".")[0])
    if not isinstance(owner, (nn.Linear, Conv1D)):
        return None
    rows, columns = checkpoint.skeleton.get_parameter(matrix.weight).shape
    return (columns, rows) if matrix.inputs_first else (rows, columns)
