"""What a joint collection of two networks keeps, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any

from gramian.errors import GramianError
from gramian.moments import FOLDS, Pair
from gramian.networks.budget import Extent, in_groups
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.estimate import product_speed
from gramian.networks.needs import Needs

A, B = "a:", "b:"
"""What the names of the sites of the first and of the second network start with."""


@dataclass(frozen=True)
class PairedCost:
    """What a joint collection costs: bytes of statistics, operations per token."""

    sites: int
    pairs: int
    passes: int
    memory_bytes: int
    """Statistics of one fold of the largest pass, and as many again for the sink rows."""
    disk_bytes: int
    """Of all folds, float64."""
    statistics_operations: int
    """Per token, all passes together."""
    forward_operations: int
    """Per token and pass, of both networks."""
    minutes: float | None
    """None when the number of tokens is not known beforehand."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.sites} sites of two networks and {self.pairs} pairs in {self.passes} "
            f"{'pass' if self.passes == 1 else 'passes'} over the data",
            f"memory   {self.memory_bytes / 1e6:,.0f} MB of statistics, above the models",
            f"disk     about {self.disk_bytes / 1e6:,.0f} MB",
            f"work     {self.statistics_operations / 1e6:,.0f} million operations per token "
            f"beside {self.forward_operations / 1e6:,.0f} of the forward passes",
        ]
        if self.minutes is not None:
            lines.append(
                f"time     about {self.minutes:.1f} minutes (from the speed of one matrix product)"
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class PairedNeeds:
    """Sites of two networks and the pairs between them, by names that start with a: or b:."""

    widths: dict[str, int]
    """Site to width."""
    pairs: tuple[Pair, ...]

    @classmethod
    def of(
        cls,
        a: Checkpoint,
        b: Checkpoint,
        sites: tuple[Sequence[str], Sequence[str]] | None = None,
        *,
        inside: bool = False,
    ) -> PairedNeeds:
        """Every site of ``a`` with every site of ``b``.

        Parameters
        ----------
        sites : those of ``a`` and of ``b``; by default the residual stream of both.
        inside : also every pair within ``a`` and every pair within ``b``.

        Raises
        ------
        GramianError : a site that the network does not have, or no site at all.
        """
        given = sites or (a.blueprint.residual_sites(), b.blueprint.residual_sites())
        named: list[list[str]] = []
        widths: dict[str, int] = {}
        for prefix, checkpoint, names in ((A, a, given[0]), (B, b, given[1])):
            if not names:
                raise GramianError(f"no site of {checkpoint.name} to compare; name at least one")
            canonical = dict.fromkeys(checkpoint.blueprint.canonical(name) for name in names)
            named.append([prefix + name for name in canonical])
            for name in canonical:
                widths[prefix + name] = checkpoint.blueprint.site_width(name)
        pairs = [Pair(x, y) for x, y in product(*named)]
        if inside:
            pairs += [Pair(x, y) for one in named for x, y in combinations(one, 2)]
        return cls(widths, tuple(pairs))

    def bytes(self, pairs: Iterable[Pair] | None = None) -> int:
        """Bytes that accumulating one fold of these pairs (by default all) holds."""
        chosen = tuple(self.pairs if pairs is None else pairs)
        sites = {site for pair in chosen for site in pair[:2]}
        widths = tuple(self.widths[site] for site in sites)
        crossed = tuple((self.widths[pair.x], self.widths[pair.y]) for pair in chosen)
        return Extent(widths, (), crossed, ()).total

    def passes(self, memory: int | None) -> tuple[tuple[Pair, ...], ...]:
        """The pairs of every pass over the data, so that each fits into ``memory`` bytes.

        Raises
        ------
        GramianError : one pair alone is larger than the budget; the message says the least.
        """
        if memory is None or self.bytes() <= memory:
            return (self.pairs,)
        least = max(self.bytes([pair]) for pair in self.pairs)
        if least > memory:
            raise GramianError(
                f"a memory budget of {memory:,} bytes cannot hold the statistics of one pair of "
                f"sites; the least budget that works for these needs is {least:,} bytes"
            )
        groups = in_groups(self.pairs, lambda pairs: self.bytes(pairs) <= memory)
        return tuple(tuple(group) for group in groups)

    def cost(
        self,
        a: Checkpoint,
        b: Checkpoint,
        memory: int | None = None,
        tokens: int | None = None,
    ) -> PairedCost:
        """Bytes and operations, from the configurations alone."""
        groups = self.passes(memory)
        squares = [d * d for d in self.widths.values()]
        triangles = [d * (d + 1) // 2 for d in self.widths.values()]
        products = [self.widths[pair.x] * self.widths[pair.y] for pair in self.pairs]
        nothing = Needs.of(())
        forward = sum(nothing.cost(one).forward_operations for one in (a, b))
        statistics = sum(squares) + 2 * sum(products)
        minutes = None
        if tokens is not None:
            operations = tokens * (forward * len(groups) + statistics)
            minutes = operations / product_speed(a.device) / 60
        return PairedCost(
            sites=len(self.widths),
            pairs=len(self.pairs),
            passes=len(groups),
            memory_bytes=max(self.bytes(group) for group in groups),
            disk_bytes=8 * len(FOLDS) * (sum(triangles) + sum(products)),
            statistics_operations=statistics,
            forward_operations=forward,
            minutes=minutes,
        )
