"""One space for several models: rotations that bring all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense, LinearMap, Tag
from gramian.moments import JointMoments
from gramian.registry import method

Pairs = Mapping[tuple[int, int], JointMoments]


@dataclass(frozen=True, eq=False)
class CommonSpace:
    """Isometries of several spaces into one."""

    maps: tuple[LinearMap, ...]
    """Of every space, (width, d_k) with orthonormal columns, and a bias with ``intercept``."""
    errors: tuple[float, ...]
    """Sum of squared distances between partners, over all pairs of spaces, after every round;
    it never rises."""
    rounds: int
    converged: bool
    pivot: int
    """The space whose coordinates are kept."""

    @property
    def width(self) -> int:
        """Width of the common space, that of the widest."""
        return self.maps[0].out_features


@method("generalised_procrustes", job="bridge", paper="Gower 1975, Psychometrika 40(1)")
def generalised_procrustes(
    pairs: Pairs,
    *,
    pivot: int | None = None,
    intercept: bool = True,
    rounds: int = 200,
    tolerance: float = 1e-10,
) -> CommonSpace:
    """Rotate K spaces together, from joint moments of pairs of them.

    Least sum over pairs ``k < l`` and the items that both have of
    ``|W_k x_k + t_k - W_l x_l - t_l|^2``; of items that all have, K times the squared distance
    to their mean. Items that a space does not have are thereby left out, nothing is filled in.
    Space by space, each is brought to those it shares items with by a polar factor. Of two spaces
    it is `procrustes`. Narrower spaces are embedded in the widest, at no change of their cosines.

    Parameters
    ----------
    pairs : ``(k, l)`` to joint moments with space k as ``x`` and l as ``y`` over the items that
        both have; each pair once, in either order. Pairs without common items may be left out.
    pivot : the space whose coordinates the common space takes; None takes the widest.
    intercept : shift spaces as well; without it moments are about zero.
    rounds : at most so many. tolerance : the least fall of the error in a round, relative to it.

    Raises
    ------
    GramianError : fewer than two spaces, numbers left out, widths that differ between pairs,
        spaces that no chain of common items connects, diagonal moments of ``x``.
    """
    widths = _widths(pairs)
    count, width = len(widths), max(widths)
    chosen = widths.index(width) if pivot is None else pivot
    if not 0 <= chosen < count:
        raise GramianError(f"pivot is {pivot}, expected 0 to {count - 1}")
    centres = _centres(pairs, widths, intercept)
    links = _links(pairs, centres)
    weights = _start(links, widths, chosen)
    shifts = [torch.zeros(width, dtype=torch.float64) for _ in widths]
    errors = [_error(pairs, centres, weights, shifts)]
    traces = sum(joint.x.trace + joint.y.trace for joint in pairs.values())
    converged, floor = False, torch.finfo(torch.float64).eps * traces
    for _ in range(rounds):
        for k in range(count):
            weights[k], shifts[k] = _placed(links[k], weights, shifts, intercept)
        errors.append(_error(pairs, centres, weights, shifts))
        if errors[-2] - errors[-1] <= tolerance * errors[-1] + floor:
            converged = True
            break
    # the pivot keeps its coordinates: W_k <- Q W_k with Q W_pivot = [I; 0]
    back = _frame(weights[chosen]).T
    weights = [back @ weight for weight in weights]
    weights[chosen] = torch.eye(width, widths[chosen], dtype=torch.float64)
    shift = weights[chosen] @ centres[chosen] - back @ shifts[chosen]
    maps: list[LinearMap] = []
    for k, weight in enumerate(weights):
        square = widths[k] == width
        map: LinearMap = Dense(weight.contiguous(), tags={Tag.ORTHOGONAL} if square else set())
        bias = back @ shifts[k] - weight @ centres[k] + shift
        maps.append(Affine(map, bias) if intercept else map)
    return CommonSpace(tuple(maps), tuple(errors), len(errors) - 1, converged, chosen)


@dataclass(frozen=True, eq=False)
class _Link:
    """What one space and another, ``other``, have in common, about the centres of both."""

    other: int
    count: float
    cross: Tensor
    """(d_other, d)."""
    mean: Tensor
    """(d,), and of the other space (d_other,)."""
    mean_other: Tensor


def _widths(pairs: Pairs) -> list[int]:
    widths: dict[int, int] = {}
    for (k, l), joint in pairs.items():
        if k == l or (l, k) in pairs:
            raise GramianError(f"pair ({k}, {l}): give every pair of two spaces once")
        if joint.x.is_diagonal:
            raise GramianError(f"pair ({k}, {l}): only the diagonal of x is kept; collect 'full'")
        for space, d in ((k, joint.x.d), (l, joint.y.d)):
            if widths.setdefault(space, d) != d:
                raise GramianError(f"space {space} is {widths[space]} wide in one pair, {d} in one")
    if sorted(widths) != list(range(len(widths))) or len(widths) < 2:
        raise GramianError(
            f"spaces {sorted(widths)}, expected at least two, numbered from 0 without gaps"
        )
    return [widths[k] for k in range(len(widths))]


def _centres(pairs: Pairs, widths: Sequence[int], intercept: bool) -> list[Tensor]:
    """A point amid every space: sums about it keep the digits that a large mean would take."""
    sums = [torch.zeros(d, dtype=torch.float64) for d in widths]
    counts = [0.0] * len(widths)
    for (k, l), joint in pairs.items():
        for space, moments in ((k, joint.x), (l, joint.y)):
            sums[space] += joint.count * moments.mean
            counts[space] += joint.count
    factor = 1.0 if intercept else 0.0
    return [factor * total / max(n, 1.0) for total, n in zip(sums, counts, strict=True)]


def _links(pairs: Pairs, centres: Sequence[Tensor]) -> list[list[_Link]]:
    """For every space, what it has in common with others."""
    links: list[list[_Link]] = [[] for _ in centres]
    for (k, l), joint in pairs.items():
        if joint.count <= 0:
            continue
        x, y = joint.x.mean - centres[k], joint.y.mean - centres[l]
        cross = torch.addr(joint.cross, x, y, alpha=joint.count)
        links[k].append(_Link(l, joint.count, cross.T, x, y))
        links[l].append(_Link(k, joint.count, cross, y, x))
    return links


def _placed(
    links: Sequence[_Link], weights: Sequence[Tensor], shifts: Sequence[Tensor], intercept: bool
) -> tuple[Tensor, Tensor]:
    """The best weight and shift of a space while the others stay where they are."""
    # the others' images z = W_l y + t_l; cross of x and z about the means of both
    cross = torch.stack(
        [
            weights[link.other] @ link.cross
            + torch.outer(link.count * shifts[link.other], link.mean)
            for link in links
        ]
    ).sum(0)
    if not intercept:
        return _polar(cross), torch.zeros(len(cross), dtype=cross.dtype)
    count = sum(link.count for link in links)
    mean = torch.stack([link.count * link.mean for link in links]).sum(0) / count
    images = [
        link.count * (weights[link.other] @ link.mean_other + shifts[link.other]) for link in links
    ]
    image = torch.stack(images).sum(0) / count
    weight = _polar(cross - count * torch.outer(image, mean))
    return weight, image - weight @ mean


def _start(links: Sequence[Sequence[_Link]], widths: Sequence[int], pivot: int) -> list[Tensor]:
    """Spaces one after the other, each against those placed; the one with most common items."""
    placed = {pivot: torch.eye(max(widths), widths[pivot], dtype=torch.float64)}
    while len(placed) < len(widths):
        common = {
            k: sum(link.count for link in of_space if link.other in placed)
            for k, of_space in enumerate(links)
            if k not in placed
        }
        best = max(common, key=lambda k: common[k])
        if common[best] <= 0:
            raise GramianError(
                f"spaces {sorted(common)} have no items in common with {sorted(placed)}, not even "
                "through others; give items that connect them"
            )
        pulls = [
            placed[link.other] @ (link.cross - torch.outer(link.count * link.mean_other, link.mean))
            for link in links[best]
            if link.other in placed
        ]
        placed[best] = _polar(torch.stack(pulls).sum(0))
    return [placed[k] for k in range(len(widths))]


def _polar(matrix: Tensor) -> Tensor:
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    weight: Tensor = u @ vh
    return weight


def _frame(weight: Tensor) -> Tensor:
    """An orthogonal matrix (width, width) whose first columns are those of the weight."""
    rest = torch.linalg.svd(weight, full_matrices=True).U[:, weight.shape[1] :]
    return torch.cat([weight, rest], dim=1)


def _error(
    pairs: Pairs, centres: Sequence[Tensor], weights: Sequence[Tensor], shifts: Sequence[Tensor]
) -> float:
    """The objective: ``tr Sxx + tr Syy - 2 <W_k Sxy, W_l>`` and the gap between the means."""
    total = 0.0
    for (k, l), joint in pairs.items():
        agreed = float(((weights[k] @ joint.cross) * weights[l]).sum())
        left = weights[k] @ (joint.x.mean - centres[k]) + shifts[k]
        right = weights[l] @ (joint.y.mean - centres[l]) + shifts[l]
        gap = float((left - right).square().sum())
        total += max(0.0, joint.x.trace + joint.y.trace - 2.0 * agreed) + joint.count * gap
    return total
