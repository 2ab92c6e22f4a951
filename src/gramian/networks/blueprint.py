"""An architecture as data: its towers, and what a job may ask about where things are."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from gramian.errors import GramianError
from gramian.networks.parts import (
    Layer,
    Layout,
    Matrix,
    Norm,
    NormKind,
    Reader,
    Tap,
    Tower,
    Writer,
)
from gramian.networks.sites import BETWEEN, Site, parse

__all__ = [
    "Blueprint",
    "Layer",
    "Layout",
    "Matrix",
    "Norm",
    "NormKind",
    "Reader",
    "Tap",
    "Tower",
    "Writer",
]


@dataclass(frozen=True)
class Blueprint:
    """An architecture: everything that a job may ask about where things are.

    Built from a table by :func:`gramian.networks.families.blueprint`; no job spells an
    attribute path itself. ``layers``, ``depth``, ``width`` and the like are those of the main
    tower; the sites of a network with several towers start with the tower's name, and a name
    without one means the main tower.
    """

    model_type: str
    towers: tuple[Tower, ...]
    main_name: str
    head: Matrix | None
    """What makes logits; None for a network that has no language-model head."""
    tied: bool
    """Whether the head shares the token table."""
    inferred: bool = False
    """Found by looking and running, not taken from a checked table: for reading only."""

    @property
    def main(self) -> Tower:
        return self.tower(self.main_name)

    @property
    def width(self) -> int:
        return self.main.width

    @property
    def vocabulary(self) -> int:
        return self.main.vocabulary

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.main.layers

    @property
    def depth(self) -> int:
        return self.main.depth

    @property
    def embed(self) -> str:
        return self.main.embed

    @property
    def embeddings(self) -> tuple[str, ...]:
        """Parameters whose rows (..., width) are added to the stream; the token table first."""
        return self.main.embeddings

    @property
    def final_norm(self) -> Norm:
        """Raises GramianError for a network whose last layer's output is final (post-LN)."""
        norm = self.main.final_norm
        if norm is None:
            raise GramianError(f"a {self.model_type} network has no final norm")
        return norm

    @property
    def causal(self) -> bool:
        return self.main.causal

    @property
    def depth_key(self) -> str:
        return self.main.depth_key

    @property
    def layers_path(self) -> str:
        return self.main.layers_path

    @classmethod
    def infer(cls, model: nn.Module) -> Blueprint:
        """The blueprint of a decoder without a table: :func:`gramian.networks.infer.infer`."""
        from gramian.networks.infer import infer

        return infer(model)

    def tower(self, name: str = "") -> Tower:
        """A tower by name; the main one for an empty name.

        Raises
        ------
        GramianError : no tower of that name.
        """
        wanted = name or self.main_name
        for tower in self.towers:
            if tower.name == wanted:
                return tower
        names = [tower.name for tower in self.towers if tower.name]
        raise GramianError(
            f"a {self.model_type} network has no tower {name!r}; "
            + (f"expected one of {', '.join(names)}" if names else "it has one, without a name")
        )

    def canonical(self, name: str) -> str:
        """The one name of a place: ``3.resid_post`` is ``4.resid_pre``, the last one is ``final``.

        Raises
        ------
        GramianError : the name is not a site of this network.
        """
        site = parse(name)
        tower = self.tower(site.tower)
        if site.layer is None:
            made = site.kind != "embed" or tower.embed
            return tower.prefix + (site.kind if made else "0.resid_pre")
        if not 0 <= site.layer < tower.depth:
            raise GramianError(
                f"site {name!r}: this network has layers 0 to {tower.depth - 1}; give one of them"
            )
        if site.kind == "resid_post":
            last = site.layer == tower.depth - 1
            return tower.prefix + ("final" if last else f"{site.layer + 1}.resid_pre")
        self._layer_tap(tower, site, name)
        return f"{tower.prefix}{site.layer}.{site.kind}"

    def tap(self, name: str) -> Tap:
        """Where to look for a site (any accepted name)."""
        site = parse(self.canonical(name))
        tower = self.tower(site.tower)
        if site.layer is not None:
            return self._layer_tap(tower, site, name)
        if site.kind == "embed":
            return Tap(tower.embed, "output", tower.width)
        if site.kind in BETWEEN:
            raise GramianError(
                f"site {name!r} is made of the residual stream at all depths; no module has it"
            )
        if tower.final_norm is None or tower.pooled:
            return Tap(tower.layers[-1].path, "output", tower.width)
        return Tap(tower.final_norm.path, "input", tower.width)

    def site_width(self, name: str) -> int:
        """Number of features at a site."""
        site = parse(self.canonical(name))
        if site.kind in BETWEEN:
            depths = self.tower(site.tower).depth + 1
            return depths * (depths - 1) // 2
        return self.tap(name).width

    def residual_sites(self, tower: str = "") -> tuple[str, ...]:
        """The residual stream of a tower before every layer, then before the final norm."""
        found = self.tower(tower)
        before = (f"{found.prefix}{i}.resid_pre" for i in range(found.depth))
        return (*before, f"{found.prefix}final")

    def norm(self, name: str) -> Norm:
        """A norm by name: ``final``, or ``12.attn`` / ``12.mlp`` for the norm before a branch.

        Branches that share a norm (Phi) both name it.
        """
        known = {norm.name: norm for norm in self.stream_norms()}
        known |= {
            norm.name: norm
            for tower in self.towers
            for layer in tower.layers
            for norm in layer.inner_norms.values()
        }
        found = known.get(name) or known.get(f"{self.main.prefix}{name}")
        if found is not None:
            return found
        for part in (part for layer in self.layers for part in layer.readers):
            if part.norm is not None and part.site in (
                f"{name}_in",
                f"{self.main.prefix}{name}_in",
            ):
                return part.norm
        kinds = sorted(
            {kind for layer in self.layers for kind in (*layer.norms, *layer.inner_norms)}
        )
        final = "'final' or " if self.main.final_norm else ""
        raise GramianError(
            f"norm {name!r} is not part of this {self.model_type} network; expected {final}"
            f"'<layer>.<name>' with layer 0 to {self.depth - 1} and name one of {kinds}"
        )

    def writer(self, name: str) -> Matrix:
        """The matrix whose output is the site ``<layer>.attn_out`` or ``<layer>.mlp_out``.

        Raises
        ------
        GramianError : no matrix writes that site (Gemma normalises the branch once more).
        """
        site = parse(self.canonical(name))
        if site.layer is None or site.kind not in ("attn_out", "mlp_out", "xattn_out"):
            raise GramianError(
                f"site {name!r} is not the output of a writer; expected <layer>.attn_out or "
                "<layer>.mlp_out"
            )
        writers = self.tower(site.tower).layers[site.layer].writers
        if site.kind not in writers:
            raise GramianError(
                f"site {name!r} of a {self.model_type} network is the output of a norm, not of a "
                "matrix: a map there cannot be folded into the weights exactly"
            )
        return writers[site.kind]

    def readers(self, layer: int, tower: str = "") -> tuple[Reader, ...]:
        """All that reads the residual stream in one layer."""
        return self.tower(tower).layers[layer].readers

    def writers(self, layer: int, tower: str = "") -> tuple[Writer, ...]:
        """All that one layer adds to the residual stream."""
        return self.tower(tower).layers[layer].outputs

    def stream_readers(self, tower: str = "") -> tuple[Reader, ...]:
        """All that reads the residual stream of a tower, in network order; the head last."""
        found = self.tower(tower)
        inside = tuple(reader for layer in found.layers for reader in layer.readers)
        norm = found.final_norm
        after = norm.readers if norm else ((found.head,) if found.head else ()) + found.after
        return inside + tuple(Reader(matrix, f"{found.prefix}final", norm) for matrix in after)

    def stream_writers(self, tower: str = "") -> tuple[Writer, ...]:
        """All matrices that write into the residual stream of a tower, in network order.

        The rows of :attr:`Tower.embeddings` come on top; :attr:`Tower.closed` says whether that
        is all.
        """
        found = self.tower(tower)
        return found.entry + tuple(writer for layer in found.layers for writer in layer.outputs)

    def stream_norms(self, tower: str | None = None) -> tuple[Norm, ...]:
        """All norms on the residual stream or on what is added to it; None for every tower."""
        towers = self.towers if tower is None else (self.tower(tower),)
        found: list[Norm] = []
        for one in towers:
            found += one.entry_norms
            found += [norm for layer in one.layers for norm in layer.norms.values()]
            found += [one.final_norm] if one.final_norm else []
        return tuple(found)

    def matrices_with_flag(self, flag: str) -> tuple[Matrix, ...]:
        """All matrices that get a bias together when the configuration sets ``flag``."""
        every = [
            part.matrix
            for layer in self.layers
            for parts in (layer.readers, layer.outputs)
            for part in parts
        ]
        found = {matrix.weight: matrix for matrix in every if matrix.bias_flag == flag}
        return tuple(found.values())

    def _layer_tap(self, tower: Tower, site: Site, given: str) -> Tap:
        assert site.layer is not None
        taps = tower.layers[site.layer].taps
        if site.kind not in taps:
            raise GramianError(
                f"site {given!r} is not one that a {self.model_type} network has; expected "
                f"'embed', 'final' or '<layer>.<site>' with site one of "
                f"{', '.join([*taps, 'resid_post'])}"
            )
        return taps[site.kind]
