"""What slicing does to the size of a network, in each of the forms that it comes in."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from gramian.networks.draft import Draft
from gramian.networks.narrowing import narrowed_shapes


@dataclass(frozen=True)
class SlicedSize:
    """One form, and the parameters of the whole network in it."""

    rotation: str
    """``shared`` by all places, or ``per-site`` with a matrix on every shortcut."""
    head: str
    """``untied``: a table of its own; ``tied``: the token table, behind a matrix for the final
    norm."""
    parameters: int
    share: float
    """Of the network as it is."""
    ordinary: bool
    """Whether an ordinary checkpoint of the architecture holds it."""

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


def size_table(draft: Draft, width: int, *, before: int) -> tuple[SlicedSize, ...]:
    """Every form at one width of the stream.

    A shortcut takes ``width²`` parameters and there are as many as branches, or as layers whose
    branches stand side by side. A tied head needs one such matrix more and saves a table.

    Parameters
    ----------
    draft : the network as it is.
    before : its parameters.
    """
    plan = draft.blueprint
    shared = sliced_parameters(draft, width)
    shortcuts = sum(1 if layer.parallel else len(layer.outputs) for layer in plan.layers)
    forms = [("shared", "untied", shared, True)]
    each = shared + shortcuts * width * width
    if plan.tied:
        saved = plan.vocabulary * width - width * width
        forms += [("shared", "tied", shared - saved, False)]
        forms += [("per-site", "tied", each - saved, False)]
    forms += [("per-site", "untied", each, False)]
    return tuple(
        SlicedSize(rotation, head, count, count / before, ordinary)
        for rotation, head, count, ordinary in forms
    )


def sliced_parameters(draft: Draft, width: int) -> int:
    """Parameters with one rotation for all places and a head of its own."""
    shapes = narrowed_shapes(draft.untied(), width)
    return sum(math.prod(shape) for shape in shapes.values())
