"""Inspect a set of moments: every site, and with the model every linear layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.inspect.channels import THRESHOLD
from gramian.inspect.linears import (
    LinearInspection,
    LinearLayer,
    counted,
    inspect_readers,
    mean_utilisation,
    readers_of_sites,
)
from gramian.inspect.site import SiteInspection, inspect_site
from gramian.measures import InputBasis, spread
from gramian.moments import MomentSet
from gramian.networks.checkpoint import Checkpoint
from gramian.registry import method


@dataclass(frozen=True)
class Inspection:
    """What the moments of a network say, site by site."""

    model: str
    folds: tuple[str, ...]
    """Whose rows were added up."""
    energy: float
    """Share of the variance behind the utilised ranks."""
    threshold: float
    """Times the median channel from which a channel is an outlier."""
    sites: tuple[SiteInspection, ...]
    """In the order of the set."""
    linears: tuple[LinearInspection, ...]
    """Empty without the model, or without the moments of any layer's input."""
    notes: tuple[str, ...]
    """What could not be inspected, and why."""

    @property
    def mean_utilisation(self) -> float | None:
        """Mean layer utilisation (MLU); None without linear layers."""
        return mean_utilisation(self.linears)

    def __getitem__(self, site: str) -> SiteInspection:
        for item in self.sites:
            if item.site == site:
                return item
        raise GramianError(f"no site {site!r}; there are {[s.site for s in self.sites]}")

    def to_json(self) -> dict[str, Any]:
        """The document that ``gramian inspect --json`` prints."""
        return {
            "model": self.model,
            "folds": list(self.folds),
            "energy": self.energy,
            "threshold": self.threshold,
            "sites": [site.record() for site in self.sites],
            "linears": [linear.record() for linear in self.linears],
            "mean_utilisation": self.mean_utilisation,
            "notes": list(self.notes),
        }


@method("inspect", job="inspect", paper="2407.04797")
def inspect(
    moments: MomentSet,
    checkpoint: Checkpoint | None = None,
    *,
    sites: str | Sequence[str] = "*",
    energy: float = 0.99,
    threshold: float = THRESHOLD,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Spread, loud channels and sink rows of every site, and the utilised rank of linear layers.

    All rows that were collected count, whatever their fold; sink rows are left out of every
    figure but those about them. One site is in memory at a time.

    Parameters
    ----------
    checkpoint : the model that the moments are of: adds the utilised rank of every linear layer
        whose input was collected in full.
    sites : patterns of the sites to inspect, such as ``"*.resid_pre"`` or ``("final", "3.*")``.
    energy : share of the variance behind the utilised ranks, in (0, 1].
    threshold : times the median channel from which a channel is an outlier, above 1.

    Raises
    ------
    GramianError : moments of another model, a pattern without a site, numbers out of range.

    Examples
    --------
    >>> found = gm.inspect.inspect(m, base)                    # doctest: +SKIP
    >>> found["12.resid_pre"].spread.effective_rank            # doctest: +SKIP
    """
    if not 0 < energy <= 1:
        raise GramianError(f"energy is {energy!r}, expected a share in (0, 1]")
    if not threshold > 1:
        raise GramianError(f"threshold is {threshold!r}, expected a number above 1")
    chosen = _chosen(moments, (sites,) if isinstance(sites, str) else tuple(sites))
    readers: dict[str, list[LinearLayer]] = {}
    notes: list[str] = []
    if checkpoint is not None:
        readers, notes = readers_of_sites(checkpoint, moments)
    found: list[SiteInspection] = []
    linears: list[LinearInspection] = []
    diagonal = 0
    for done, site in enumerate(chosen):
        rows = moments.moments(site, fold=moments.folds)
        all_rows = moments.moments(site, fold=moments.folds, sinks=True)
        if rows.count <= 0:
            raise GramianError(f"the site {site!r} has no rows that are not sinks; collect more")
        basis = None
        if site in readers and not rows.is_diagonal:
            basis = InputBasis.of(rows)
        panel = None if rows.is_diagonal else spread(rows, basis.values if basis else None)
        found.append(inspect_site(site, rows, all_rows, panel, threshold))
        if basis is not None and checkpoint is not None:
            raw = _kept_rows(moments, site)
            linears += inspect_readers(
                readers[site], checkpoint.model, basis, rows, all_rows, raw, energy
            )
        elif site in readers:
            diagonal += len(readers[site])
        if progress:
            progress(done + 1, len(chosen))
    if diagonal:
        notes.append(
            f"only the diagonal was collected at inputs of {counted(diagonal)}; collect with "
            "--for linears to see what they use"
        )
    return Inspection(
        model=moments.recipe.model,
        folds=moments.folds,
        energy=energy,
        threshold=threshold,
        sites=tuple(found),
        linears=tuple(linears),
        notes=tuple(notes),
    )


def _chosen(moments: MomentSet, patterns: tuple[str, ...]) -> list[str]:
    """The sites that match any of the patterns, in the order of the set."""
    for pattern in patterns:
        if not any(fnmatchcase(site, pattern) for site in moments.sites):
            raise GramianError(
                f"no site matches {pattern!r}; the set has {', '.join(moments.sites[:6])}"
                f"{' and more' if len(moments.sites) > 6 else ''}"
            )
    return [s for s in moments.sites if any(fnmatchcase(s, pattern) for pattern in patterns)]


def _kept_rows(moments: MomentSet, site: str) -> Tensor | None:
    """The raw rows of a site over all folds; None where none were kept."""
    if not any(p.kind == "reservoir" and p.names == (site,) for p in moments.index.parts):
        return None
    return torch.cat([moments.reservoir(site, fold)[1] for fold in moments.folds])
