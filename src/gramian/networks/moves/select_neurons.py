"""Keep some neurons of every MLP."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint, Layer, Matrix
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.selecting import (
    Changed,
    Kept,
    checked_selection,
    inputs_outputs,
    outputs_kept,
    require_below,
    require_layers,
    require_whole,
    resized,
    rewritten_writer,
    write_from,
)


@dataclass(frozen=True)
class SelectNeurons:
    """Keep the neurons ``kept[i]`` of layer ``i``'s MLP, read by the map ``writers[i]``.

    The rows of the matrices before them (gate, up, or both in one) and their biases stay as they
    are; the matrix behind them is the map's, of shape (width, neurons kept). An affine map also
    gives its bias, and any other leaves the bias that is there. All layers keep equally many: the
    one number that the configuration has for them changes, and the result is the same
    architecture, narrower.
    """

    kept: Kept
    writers: tuple[LinearMap, ...]
    kind: ClassVar[str] = "select_neurons"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        checked_selection(self.kept, self.writers, "SelectNeurons")
        count = len(self.kept[0])
        for map in self.writers:
            if map.in_features != count:
                raise GramianError(f"SelectNeurons keeps {count} neurons, and {map!r} reads them")

    def rewrite(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        require_layers(draft, self.kept, "SelectNeurons")
        changed: Changed = {}
        for layer, own, map in zip(plan.layers, self.kept, self.writers, strict=True):
            readers, writer, width = neurons(plan, layer)
            require_below(own, width, f"{plan.main.prefix}{layer.index}.mlp_mid")
            for matrix in (*readers, writer):
                require_whole(draft, matrix, "SelectNeurons")
            for matrix in readers:
                rows = _rows(draft, matrix, own, width)
                changed |= outputs_kept(draft, matrix, rows)
            changed |= rewritten_writer(draft, writer, map)
        return resized(draft, changed, **{plan.main.inner_key: len(self.kept[0])})

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        for old, own, map in zip(draft.origin, self.kept, self.writers, strict=True):
            writer = neurons(source, source.layers[old])[1]
            write_from(model, writer, torch.tensor(own), map, stack)

    def describe(self) -> str:
        return f"keep {len(self.kept[0])} neurons of every MLP"


def neurons(plan: Blueprint, layer: Layer) -> tuple[tuple[Matrix, ...], Matrix, int]:
    """What makes the neurons of a layer's MLP, what reads them, and how many there are.

    Raises
    ------
    GramianError : a layer with experts, or an architecture without one number of neurons.
    """
    if "mlp_mid" not in layer.taps:
        raise GramianError(
            f"layer {layer.index} of this {plan.model_type} network has no MLP of its own but "
            "experts, each with neurons of its own; only dense MLPs are narrowed"
        )
    if not plan.main.inner_key:
        raise GramianError(
            f"no configuration entry is known that counts the neurons of a {plan.model_type} MLP"
        )
    prefix = f"{plan.main.prefix}{layer.index}"
    readers = tuple(r.matrix for r in layer.readers if r.site == f"{prefix}.mlp_in")
    writer = next(w.matrix for w in layer.outputs if w.site == f"{prefix}.mlp_out")
    return readers, writer, layer.taps["mlp_mid"].width


def _rows(draft: Draft, matrix: Matrix, kept: tuple[int, ...], width: int) -> Tensor:
    """The outputs of a matrix that make the kept neurons: gate and up may follow each other."""
    outputs = inputs_outputs(draft, matrix)[1]
    copies, left = divmod(outputs, width)
    if left:
        raise GramianError(f"{matrix.weight} has {outputs} outputs for {width} neurons")
    own = torch.tensor(kept)
    return torch.cat([own + copy * width for copy in range(copies)])
