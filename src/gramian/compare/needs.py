"""Which moments a comparison of layers reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Need, Needs


def needs(checkpoint: Checkpoint, sites: Sequence[str] | None = None) -> Needs:
    """Full moments of every site, and the cross scatter of every pair of them.

    Parameters
    ----------
    sites : by default the residual stream: before every layer, and before the final norm.

    Raises
    ------
    GramianError : a site that the network does not have, or fewer than two.
    """
    blueprint = checkpoint.blueprint
    given = blueprint.residual_sites() if sites is None else sites
    named = list(dict.fromkeys(blueprint.canonical(site) for site in given))
    if len(named) < 2:
        raise GramianError(
            f"a comparison needs two sites or more, given {', '.join(named) or 'none'}; to "
            "compare one site between two networks, collect both together"
        )
    return Needs.of(
        [Need(site) for site in named] + [Need(x, y) for x, y in combinations(named, 2)]
    )
