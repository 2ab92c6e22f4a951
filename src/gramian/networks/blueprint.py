"""The parts of an architecture as data: layers, norms, readers and writers of the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gramian.errors import GramianError
from gramian.networks.sites import Site, parse

Layout = Literal["out_in", "in_out", "expert_out_in"]
"""How a weight is stored: ``nn.Linear``, ``Conv1D``, or one 3-D tensor for all experts."""

NormKind = Literal["rms", "rms1p", "layer"]
"""RMSNorm, RMSNorm with a gain of ``1 + weight``, LayerNorm (mean-subtracting, with a bias)."""


@dataclass(frozen=True)
class Matrix:
    """One weight of the network and what can be done to it."""

    weight: str
    """Parameter name."""
    layout: Layout
    bias: str
    """The name its bias has, or would have."""
    has_bias: bool
    bias_flag: str | None = None
    """The configuration switch that gives this matrix (and its siblings) a bias."""


@dataclass(frozen=True)
class Norm:
    """A normalisation, its gain (and bias), and the matrices that read its output."""

    name: str
    path: str
    kind: NormKind
    readers: tuple[Matrix, ...]
    """Empty where the output is added to the stream instead of being read by matrices."""

    @property
    def weight(self) -> str:
        return f"{self.path}.weight"

    @property
    def bias(self) -> str | None:
        return f"{self.path}.bias" if self.kind == "layer" else None


@dataclass(frozen=True)
class Tap:
    """Where a site is seen: the input or output of a module, or some columns of it."""

    path: str
    side: Literal["input", "output"]
    width: int
    columns: tuple[int, int] | None = None


@dataclass(frozen=True)
class Layer:
    """One block: its taps by site name, its norms, and what it writes with."""

    index: int
    path: str
    taps: Mapping[str, Tap]
    norms: Mapping[str, Norm]
    writers: Mapping[str, Matrix]
    """``attn_out`` and ``mlp_out``: the matrix whose output *is* that site. A branch that is
    normalised again before it is added (Gemma) has no entry: no matrix writes that site."""


@dataclass(frozen=True)
class Blueprint:
    """An architecture: everything that a job may ask about where things are.

    Built from a table by :func:`gramian.networks.families.blueprint`; no job spells an
    attribute path itself.
    """

    model_type: str
    width: int
    vocabulary: int
    layers: tuple[Layer, ...]
    embed: str
    head: Matrix
    final_norm: Norm
    tied: bool
    causal: bool
    depth_key: str
    layers_path: str

    @property
    def depth(self) -> int:
        return len(self.layers)

    def canonical(self, name: str) -> str:
        """The one name of a place: ``3.resid_post`` is ``4.resid_pre``, the last one is ``final``.

        Raises
        ------
        GramianError : the name is not a site of this network.
        """
        site = parse(name)
        if site.layer is None:
            return site.kind
        if not 0 <= site.layer < self.depth:
            raise GramianError(
                f"site {name!r}: this network has layers 0 to {self.depth - 1}; give one of them"
            )
        if site.kind == "resid_post":
            last = site.layer == self.depth - 1
            return "final" if last else f"{site.layer + 1}.resid_pre"
        self._layer_tap(site, name)
        return f"{site.layer}.{site.kind}"

    def tap(self, name: str) -> Tap:
        """Where to look for a site (any accepted name)."""
        canonical = self.canonical(name)
        if canonical == "final":
            return Tap(self.final_norm.path, "input", self.width)
        if canonical == "embed":
            return Tap(self.embed, "output", self.width)
        return self._layer_tap(parse(canonical), name)

    def site_width(self, name: str) -> int:
        """Number of features at a site."""
        return self.tap(name).width

    def residual_sites(self) -> tuple[str, ...]:
        """The residual stream before every layer, then before the final norm."""
        return (*(f"{i}.resid_pre" for i in range(self.depth)), "final")

    def norm(self, name: str) -> Norm:
        """A norm by name: ``final``, or ``12.attn`` / ``12.mlp`` for the norm before a branch."""
        if name == "final":
            return self.final_norm
        layer, _, kind = name.partition(".")
        if layer.isdigit() and int(layer) < self.depth and kind in self.layers[int(layer)].norms:
            return self.layers[int(layer)].norms[kind]
        known = sorted({kind for item in self.layers for kind in item.norms})
        raise GramianError(
            f"norm {name!r} is not part of this {self.model_type} network; expected 'final' or "
            f"'<layer>.<name>' with layer 0 to {self.depth - 1} and name one of {known}"
        )

    def writer(self, name: str) -> Matrix:
        """The matrix whose output is the site ``<layer>.attn_out`` or ``<layer>.mlp_out``.

        Raises
        ------
        GramianError : no matrix writes that site (Gemma normalises the branch once more).
        """
        site = parse(self.canonical(name))
        if site.layer is None or site.kind not in ("attn_out", "mlp_out"):
            raise GramianError(
                f"site {name!r} is not the output of a writer; expected <layer>.attn_out or "
                "<layer>.mlp_out"
            )
        writers = self.layers[site.layer].writers
        if site.kind not in writers:
            raise GramianError(
                f"site {name!r} of a {self.model_type} network is the output of a norm, not of a "
                "matrix: a map there cannot be folded into the weights exactly"
            )
        return writers[site.kind]

    def matrices_with_flag(self, flag: str) -> tuple[Matrix, ...]:
        """All matrices that get a bias together when the configuration sets ``flag``."""
        found = {
            matrix.weight: matrix
            for layer in self.layers
            for matrix in (
                *(reader for norm in layer.norms.values() for reader in norm.readers),
                *layer.writers.values(),
            )
            if matrix.bias_flag == flag
        }
        return tuple(found.values())

    def _layer_tap(self, site: Site, given: str) -> Tap:
        assert site.layer is not None
        taps = self.layers[site.layer].taps
        if site.kind not in taps:
            raise GramianError(
                f"site {given!r} is not one that a {self.model_type} network has; expected "
                f"'embed', 'final' or '<layer>.<site>' with site one of "
                f"{', '.join([*taps, 'resid_post'])}"
            )
        return taps[site.kind]
