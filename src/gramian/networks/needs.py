"""What a job wants to be collected, and what that costs before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from gramian.errors import GramianError
from gramian.moments import FOLDS, MomentSet, Pair
from gramian.networks.blueprint import Blueprint
from gramian.networks.checkpoint import Checkpoint

Rows = Literal["all"]
"""Which rows a need is about. Sink rows are always kept apart and can be added back."""


@dataclass(frozen=True, order=True)
class Need:
    """Moments of one site, or of a site and its partner over the same rows."""

    site: str
    partner: str | None = None
    increment: bool = False
    """The target is ``partner - site``, formed row by row before any product."""
    order: Literal["full", "diagonal"] = "full"
    """The whole scatter of ``site``, or its diagonal."""
    rows: Rows = "all"


@dataclass(frozen=True)
class Cost:
    """What collecting costs: bytes of statistics, operations per token."""

    bytes_per_fold: int
    """In memory, float64."""
    disk_bytes: int
    """Of all folds, float64, a symmetric scatter as its lower half."""
    operations: int
    """Floating-point operations per token for the statistics; a symmetric product is d**2."""
    forward_operations: int
    """Floating-point operations per token of the forward pass (matrices, not attention)."""
    sites: int
    pairs: int


@dataclass(frozen=True)
class Needs:
    """A set of :class:`Need`; ``+`` unites and removes duplicates."""

    items: frozenset[Need]

    @classmethod
    def of(cls, items: Iterable[Need]) -> Needs:
        return cls(frozenset(items))

    def __add__(self, other: Needs) -> Needs:
        return Needs(self.items | other.items)

    def __iter__(self) -> Iterator[Need]:
        return iter(sorted(self.items, key=lambda need: (need.site, need.partner or "", need)))

    def resolved(self, blueprint: Blueprint) -> Needs:
        """The same needs with every site under its one canonical name.

        Raises
        ------
        GramianError : a site that the network does not have, an increment between widths.
        """
        named = []
        for need in self.items:
            site = blueprint.canonical(need.site)
            partner = None if need.partner is None else blueprint.canonical(need.partner)
            if need.increment and partner is not None:
                widths = blueprint.site_width(site), blueprint.site_width(partner)
                if widths[0] != widths[1]:
                    raise GramianError(
                        f"the increment from {site} to {partner} needs equal widths, found "
                        f"{widths[0]} and {widths[1]}"
                    )
            named.append(Need(site, partner, need.increment, need.order, need.rows))
        return Needs.of(named)

    def orders(self, blueprint: Blueprint) -> dict[str, Literal["full", "diagonal"]]:
        """Site -> the scatter to keep: full for the source of a pair and where a need asks for
        it, the diagonal for a site that is only a target."""
        needs = self.resolved(blueprint)
        full = {need.site for need in needs if need.partner is not None or need.order == "full"}
        diagonal = {place for need in needs for place in (need.site, need.partner) if place} - full
        return {
            **dict.fromkeys(sorted(diagonal), "diagonal"),
            **dict.fromkeys(sorted(full), "full"),
        }

    def pairs(self, blueprint: Blueprint) -> tuple[Pair, ...]:
        """The pairs to accumulate."""
        found = {
            Pair(need.site, need.partner, need.increment)
            for need in self.resolved(blueprint)
            if need.partner is not None
        }
        return tuple(sorted(found))

    def cost(self, checkpoint: Checkpoint) -> Cost:
        """Bytes and operations, from the configuration alone."""
        blueprint = checkpoint.blueprint
        orders, pairs = self.orders(blueprint), self.pairs(blueprint)
        width = blueprint.site_width
        entries = stored = operations = 0
        for site, order in orders.items():
            d = width(site)
            entries += d * d if order == "full" else d
            stored += d * (d + 1) // 2 if order == "full" else d
            operations += d * d if order == "full" else 2 * d
        for pair in pairs:
            entries += width(pair.x) * width(pair.y)
            stored += width(pair.x) * width(pair.y)
            operations += 2 * width(pair.x) * width(pair.y)
        matrices = sum(
            parameter.numel()
            for name, parameter in checkpoint.skeleton.named_parameters()
            if parameter.dim() >= 2 and name.startswith(blueprint.layers_path)
        )
        return Cost(
            bytes_per_fold=8 * entries,
            disk_bytes=8 * stored * len(FOLDS),
            operations=operations,
            forward_operations=2 * matrices,
            sites=len(orders),
            pairs=len(pairs),
        )

    def missing(self, moments: MomentSet, blueprint: Blueprint) -> Needs:
        """The needs that a set of moments cannot serve."""
        sites, pairs = set(moments.sites), set(moments.pairs)

        def served(need: Need) -> bool:
            if need.site not in sites:
                return False
            if need.partner is None:
                return True
            asked = Pair(need.site, need.partner, need.increment)
            return asked in pairs or asked._replace(increment=not need.increment) in pairs

        return Needs.of(need for need in self.resolved(blueprint) if not served(need))

    def require(self, checkpoint: Checkpoint, moments: MomentSet, purpose: str) -> None:
        """Refuse moments of other weights, or without what these needs ask for.

        purpose : the word after ``--for`` that collects it.

        Raises
        ------
        GramianError : as said.
        """
        if moments.recipe.weights != checkpoint.digest:
            raise GramianError(
                f"these moments are of {moments.recipe.model} (weights "
                f"{moments.recipe.weights[:12]}), not of {checkpoint.name} (weights "
                f"{checkpoint.digest[:12]}); collect them on this model"
            )
        missing = self.missing(moments, checkpoint.blueprint)
        if missing.items:
            first = next(iter(missing))
            place = first.site if first.partner is None else f"{first.site} with {first.partner}"
            raise GramianError(
                f"these moments lack {len(missing.items)} of the places that are read, such as "
                f"{place}; collect with --for {purpose}"
            )


def rank(checkpoint: Checkpoint) -> Needs:
    """The second moments that low-rank and width methods read, one full scatter for every matrix.

    Inputs of the attention (``attn_in``), of its output matrix (``z``) and of the MLP (``mlp_in``),
    and for the MLP's last matrix its output: with ``C`` the moments of ``mlp_mid``, what counts
    in ``W`` is seen in ``W C W^T``, the moments of ``mlp_out``, which are several times narrower.
    Those of ``q``, ``k``, ``v``, ``attn_out`` and of the inner width follow from the inputs
    through the weights and are not collected. ``mlp_mid`` is, where the branch is normalised
    again before it is added: its output is then no matrix's.
    """
    found = []
    for layer in checkpoint.blueprint.layers:
        last = "mlp_out" if "mlp_out" in layer.writers else "mlp_mid"
        for site in ("attn_in", "z", "mlp_in", last):
            if site in layer.taps:
                found.append(Need(f"{layer.index}.{site}"))
    return Needs.of(found)


def linears(checkpoint: Checkpoint) -> Needs:
    """The second moments of the input of every linear layer (calibration for rank, pruning and
    quantization methods)."""
    blueprint = checkpoint.blueprint
    inputs = ("attn_in", "z", "mlp_in", "mlp_mid")
    return Needs.of(
        Need(f"{layer.index}.{site}")
        for layer in blueprint.layers
        for site in inputs
        if site in layer.taps
    )
