"""Names of sites on axes and in tables: their order in the network, and short forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SITE = re.compile(r"(?:(.*)[.:])?(\d+)\.([^:]*)")
_STEPS = ("embed", "resid_pre", "attn_in", "z", "attn_out", "resid_mid", "mlp_in", "mlp_mid")


def network_order(site: str) -> tuple[str, int, int, str]:
    """Sorts sites as the network has them: network or tower, layer, place in the layer."""
    match = _SITE.fullmatch(site)
    if match:
        step = match[3]
        place = _STEPS.index(step) if step in _STEPS else len(_STEPS)
        return match[1] or "", int(match[2]), place, step
    prefix, _, name = site.rpartition(":")
    return prefix, -1 if name == "embed" else 10**9, 0, name


def layer_of(site: str) -> int | None:
    """The layer of a site; None for one outside the layers."""
    match = _SITE.fullmatch(site)
    return int(match[2]) if match else None


def family_of(site: str) -> str:
    """What the sites of one curve share: network and place; ``final`` goes with ``resid_pre``,
    whose last it is."""
    match = _SITE.fullmatch(site)
    prefix, _, name = site.rpartition(":")
    if match is None:
        return f"{prefix}: resid_pre" if prefix and name == "final" else _alone(name)
    return f"{match[1]}: {match[3]}" if match[1] else match[3]


def _alone(name: str) -> str:
    return "resid_pre" if name == "final" else name


def depths(sites: Iterable[str]) -> dict[str, int]:
    """Site -> where it is drawn: its layer, one after the last for ``final``, one before the
    first for others outside the layers."""
    named = list(sites)
    after = 1 + max((layer for site in named if (layer := layer_of(site)) is not None), default=-1)
    found = {}
    for site in named:
        layer = layer_of(site)
        last = site.rpartition(":")[2] == "final"
        found[site] = layer if layer is not None else after if last else -1
    return found


def short(sites: Sequence[str]) -> list[str]:
    """The layers alone, where all sites are of one family; else the names as they are."""
    if len({family_of(site) for site in sites}) != 1:
        return list(sites)
    names = [
        site.rpartition(":")[2] if (layer := layer_of(site)) is None else str(layer)
        for site in sites
    ]
    return names if len(set(names)) == len(names) else list(sites)
