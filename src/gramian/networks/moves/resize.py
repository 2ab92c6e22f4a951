"""Give a network other widths: of its residual stream, its MLPs, its heads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.resize_axes import Axes, Indices
from gramian.networks.moves.resize_checks import require_heads, require_stream, require_whole
from gramian.networks.moves.resize_config import resized_config
from gramian.networks.moves.resize_hooks import set_hooks
from gramian.networks.moves.resize_tensors import resized_tensors
from gramian.networks.moves.selecting import resized
from gramian.networks.moves.weights import checked_map


@dataclass(frozen=True)
class Resize:
    """Make every new feature of the stream, every new neuron and every new head one of the old
    ones: chosen, left out, or there several times; in the stream also zero (-1).

    ``stream`` has the old feature of every new one, ``neurons[i]`` the same for the MLP of layer
    ``i``, ``queries[i]`` and ``keys[i]`` for its heads of queries and of keys and values. What is
    empty stays as it is. Matrices that make a feature make it as before; matrices that read one
    share their old column among its copies.

    A norm divides by the root of a mean square over all features. With every feature there ``c``
    times in a stream of ``n`` that becomes ``m`` wide, all that writes into the stream is
    multiplied by ``sqrt(m / (c n))``, so that this mean square stays, and the gains of the norms
    by its inverse: repeated and zero features change nothing, nor does leaving out features that
    are always zero. The function is then that of the source, and whatever else is chosen is
    certified against the source with the choice made by hooks.

    Parameters
    ----------
    gains : norm -> a further factor of its gain.
    scale : a further factor of what writes into the stream.
    places, maps : how a place (``3.attn_in``, ``3.z``, ``3.mlp_mid``, ``final``) is read: a
        `Diagonal` has the share of every new feature in place of ``1 / copies``, any other map
        makes the features that go from those that stay.
    """

    stream: tuple[int, ...] = ()
    neurons: Indices = ()
    queries: Indices = ()
    keys: Indices = ()
    gains: Mapping[str, float] = field(default_factory=dict)
    scale: float = 1.0
    places: tuple[str, ...] = ()
    maps: tuple[LinearMap, ...] = ()
    kind: ClassVar[str] = "resize"
    changes: ClassVar[frozenset[str]] = frozenset({STREAM, READERS, MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS, MATRICES})

    def __post_init__(self) -> None:
        for name in ("neurons", "queries", "keys"):
            indices = getattr(self, name)
            if len({len(own) for own in indices}) > 1:
                raise GramianError(
                    f"Resize: {name} differ in number between layers; an ordinary configuration "
                    "has one number for all of them"
                )
        if bool(self.queries) != bool(self.keys):
            raise GramianError("Resize: give queries and keys, or neither")
        if len(self.places) != len(self.maps):
            raise GramianError(f"Resize: {len(self.maps)} maps for {len(self.places)} places")
        for map in self.maps:
            checked_map(map, "Resize")

    def rewrite(self, draft: Draft) -> Draft:
        axes = self._axes(draft.blueprint, draft.config, range(draft.blueprint.depth))
        require_whole(draft)
        if self.stream:
            require_stream(draft, axes)
        if self.queries:
            require_heads(draft, axes)
        config = resized_config(draft, axes)
        return resized(draft, resized_tensors(draft, axes), **config)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        set_hooks(model, self._axes(source, draft.config, draft.origin), stack)

    def describe(self) -> str:
        counts = {
            "features": len(self.stream),
            "neurons": len(self.neurons[0]) if self.neurons else 0,
            "query heads": len(self.queries[0]) if self.queries else 0,
            "key heads": len(self.keys[0]) if self.keys else 0,
        }
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return f"resize to {told}"

    def _axes(self, plan: Blueprint, config: Any, origin: Any) -> Axes:
        return Axes(
            plan,
            config,
            tuple(origin),
            self.stream,
            self.neurons,
            self.queries,
            self.keys,
            self.gains,
            self.scale,
            dict(zip(self.places, self.maps, strict=True)),
        )
