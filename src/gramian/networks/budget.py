"""Bytes that statistics take while they are being collected, by arithmetic alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

from gramian.moments import Pair
from gramian.networks.needs import Need

Item = TypeVar("Item")


@dataclass(frozen=True)
class Extent:
    """The matrices that a group of needs keeps sums in."""

    full: tuple[int, ...]
    """Widths of the sites whose whole scatter is kept."""
    diagonal: tuple[int, ...]
    """Widths of the other sites."""
    pairs: tuple[tuple[int, int], ...]
    increments: tuple[int, ...]
    """Widths of the increments among the pairs, which have a diagonal of their own."""
    product_bytes: int = 4
    """Bytes of a number in a product."""

    @classmethod
    def of(cls, needs: Iterable[Need], width: Callable[[str], int], precision: str) -> Extent:
        """Of needs that are resolved."""
        needs = list(needs)
        full = {n.site for n in needs if n.partner is not None or n.order == "full"}
        sites = {site for n in needs for site in (n.site, n.partner) if site}
        pairs = sorted({Pair(n.site, n.partner, n.increment) for n in needs if n.partner})
        return cls(
            tuple(width(site) for site in sorted(full)),
            tuple(width(site) for site in sorted(sites - full)),
            tuple((width(pair.x), width(pair.y)) for pair in pairs),
            tuple(width(pair.y) for pair in pairs if pair.increment),
            4 if precision == "float32" else 8,
        )

    @property
    def matrices(self) -> int:
        """Sums in float64, twice: sink rows are kept apart, and take as much when they are many."""
        entries = sum(d * d for d in self.full) + sum(x * y for x, y in self.pairs)
        return 2 * 8 * entries

    @property
    def vectors(self) -> int:
        """Shifts, totals, diagonals and sums of third order, twice as well."""
        # shift, total and vector or diagonal; for a pair the two sums of third order
        entries = 3 * sum((*self.full, *self.diagonal, *self.increments))
        return 2 * 8 * (entries + sum(x + y for x, y in self.pairs))

    @property
    def products(self) -> int:
        """One buffer for every shape of a product, for kept rows and for sink rows."""
        shapes: Collection[tuple[int, int]] = {(d, d) for d in self.full} | set(self.pairs)
        return 2 * self.product_bytes * sum(x * y for x, y in shapes)

    @property
    def writing(self) -> int:
        """What handing the widest site or pair to the writer takes for a moment: whole matrices
        of rows and of sinks, and what the file holds of all three folds."""
        square = max((d * d for d in self.full), default=0)
        cross = max((x * y for x, y in self.pairs), default=0)
        # Two whole scatters, then three folds of two halves or of two crosses.
        return 2 * 8 * square + 6 * 8 * max((square + 1) // 2, cross)

    @property
    def large(self) -> int:
        """Bytes that may as well lie in memory maps."""
        return self.matrices + self.products + self.writing

    @property
    def total(self) -> int:
        return self.large + self.vectors


def in_groups(
    items: Iterable[Item],
    fits: Callable[[list[Item]], bool],
    apart: Callable[[Item, Item], bool] | None = None,
) -> list[list[Item]]:
    """Items in their order, a new group where the next one would not fit, or where it and the one
    before are to be apart."""
    groups: list[list[Item]] = []
    for item in items:
        last = groups[-1] if groups else None
        if last is None or not fits([*last, item]) or (apart and apart(last[-1], item)):
            groups.append([item])
        else:
            last.append(item)
    return groups
