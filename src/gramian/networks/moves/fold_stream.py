"""Fold a map of the residual stream into all that writes it, or into all that reads it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import nn

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Blueprint
from gramian.networks.draft import Draft
from gramian.networks.moves.hooking import map_inputs, map_outputs, owners
from gramian.networks.moves.protocol import LAYERS, MATRICES, READERS, STREAM
from gramian.networks.moves.stream import is_tied_head, map_embeddings, require_closed
from gramian.networks.moves.weights import (
    checked_map,
    fold_inputs,
    fold_outputs,
    parts,
    require_square,
)
from gramian.networks.sites import Site, parse

Into = Literal["writers", "readers"]


@dataclass(frozen=True)
class FoldStream:
    """Fold a square map (a projection, oblique or not, an eraser) of the residual stream.

    ``into="writers"``: the embeddings and every matrix that writes into the stream before
    ``place`` add ``M y`` instead of ``y``; the constant of an affine map is added once, by the
    token table. The stream at ``place`` is then ``M x + c``, and so it is at every earlier place:
    with a projection and no ``place``, nothing ever writes what it removes.

    ``into="readers"``: every matrix that reads the stream from ``place`` on, the head included,
    is given ``M x + c`` for what it was given (behind the norm, where there is one). The stream
    itself stays what it was.

    ``place`` is ``<layer>.resid_pre``, ``<layer>.resid_mid`` or ``final``; None for everywhere.
    """

    map: LinearMap
    into: Into
    place: str | None = None
    kind: ClassVar[str] = "fold_stream"
    changes: ClassVar[frozenset[str]] = frozenset({MATRICES})
    reads: ClassVar[frozenset[str]] = frozenset({LAYERS, STREAM, READERS})

    def __post_init__(self) -> None:
        checked_map(self.map, "FoldStream")
        if self.into not in get_args(Into):
            raise GramianError(f"into is {self.into!r}, expected 'writers' or 'readers'")

    def rewrite(self, draft: Draft) -> Draft:
        require_square(self.map, draft.blueprint.width, "FoldStream")
        if self.place is not None:
            self._place(draft.blueprint)
        return self._on_writers(draft) if self.into == "writers" else self._on_readers(draft)

    def hooks(self, model: nn.Module, source: Blueprint, draft: Draft, stack: ExitStack) -> None:
        plan, origin = draft.blueprint, draft.origin
        if self.into == "readers":
            chosen = [
                reader.matrix
                for layer, old in enumerate(origin)
                for reader in source.readers(old)
                if not self._is_before(layer, parse(reader.site).kind, plan)
            ]
            head = [source.head] if source.head else []
            for module in owners(model, [*chosen, *head]):
                map_inputs(module, self.map, stack)
            return
        linear, constant = parts(self.map)
        for name in source.embeddings:
            with_constant = constant is not None and name == source.embeddings[0]
            table = model.get_submodule(name.removesuffix(".weight"))
            map_outputs(table, self.map if with_constant else linear, stack)
        for module in owners(model, [writer.matrix for writer in source.main.entry]):
            map_outputs(module, linear, stack)
        for layer, old in enumerate(origin):
            for kind in (parse(writer.site).kind for writer in source.writers(old)):
                if self._is_before(layer, kind, plan):
                    path = source.tap(f"{old}.{kind}").path
                    map_outputs(model.get_submodule(path), linear, stack)

    def describe(self) -> str:
        where = {"writers": "before", "readers": "from"}[self.into]
        place = f" {where} {self.place}" if self.place else ""
        return f"fold {self.map!r} into all {self.into} of the residual stream{place}"

    def _on_writers(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        require_closed(draft, "FoldStream into writers")
        chosen = [w for w in plan.stream_writers() if self._is_earlier(w.site, plan)]
        stuck = [writer.site for writer in chosen if writer.norm is not None]
        stuck += [norm.name for norm in plan.stream_norms() if norm.place == "stream"]
        if stuck:
            raise GramianError(
                f"a norm stands between matrices and the residual stream of this {plan.model_type} "
                f"network (at {stuck[0]!r}), so no matrix can take the map; fold it into readers"
            )
        linear, constant = parts(self.map)
        draft = map_embeddings(draft.untied(), linear)
        for writer in chosen:
            draft = fold_outputs(draft, writer.matrix, linear, writer.site)
        if constant is None:
            return draft
        name = plan.embeddings[0]
        _require_plain_table(draft, name)
        table = draft.tensors[name]
        return draft.with_tensors({name: lambda: table() + constant.to(table())})

    def _on_readers(self, draft: Draft) -> Draft:
        plan = draft.blueprint
        chosen = [r for r in plan.stream_readers() if not self._is_earlier(r.site, plan)]
        if any(is_tied_head(draft, reader.matrix) for reader in chosen):
            draft = draft.untied()
        for reader in chosen:
            draft = fold_inputs(draft, reader.matrix, self.map, reader.site)
        return draft

    def _place(self, plan: Blueprint) -> Site:
        site = parse(plan.canonical(self.place or "final"))
        if site.kind not in ("resid_pre", "resid_mid", "final"):
            raise GramianError(
                f"{self.place!r} is no place on the residual stream; expected <layer>.resid_pre, "
                "<layer>.resid_mid, 'final', or None for everywhere"
            )
        return site

    def _is_earlier(self, site: str, plan: Blueprint) -> bool:
        """Whether what writes or reads at a site does so before the place."""
        found = parse(site)
        if found.layer is None:
            return found.kind == "embed"
        return self._is_before(found.layer, found.kind, plan)

    def _is_before(self, layer: int, kind: str, plan: Blueprint) -> bool:
        if self.place is None:
            return self.into == "writers"
        place = self._place(plan)
        if place.layer is None:
            return True
        if layer == place.layer:
            return place.kind == "resid_mid" and kind in ("attn_in", "attn_out")
        return layer < place.layer


def _require_plain_table(draft: Draft, name: str) -> None:
    """Raise unless the rows of the token table are added to the stream as they are."""
    table = draft.empty.get_submodule(name.removesuffix(".weight"))
    if type(table) is not nn.Embedding:
        raise GramianError(
            f"the map has a constant, and {type(table).__name__} scales the rows of {name!r} "
            "before it adds them; fold the linear part alone (map.map)"
        )
