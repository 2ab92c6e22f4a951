"""One site: how its rows spread, its loud channels, its sink rows, and what to beware of."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from gramian.inspect.channels import Channels
from gramian.measures import Spread, mean_share
from gramian.moments import Moments


@dataclass(frozen=True)
class Caution:
    """Something to know before reading the figures of a site."""

    kind: str
    """``rows``, ``diagonal``, ``sinks``, ``channels``, ``silent`` or ``mean``."""
    message: str


@dataclass(frozen=True)
class Sinks:
    """Sink rows, which every other figure leaves out."""

    count: float
    share: float
    """Share of the second moment of all rows, ``sum |x|^2``, that they own."""
    times: float
    """Their root mean square length over that of the other rows."""

    @classmethod
    def of(cls, rows: Moments, all_rows: Moments) -> Sinks:
        """From the moments of a site without and with its sink rows."""
        count = all_rows.count - rows.count
        other, total = _energy(rows), _energy(all_rows)
        if count <= 0 or total <= 0:
            return cls(max(count, 0.0), 0.0, 0.0)
        own = max(total - other, 0.0)
        lengths = (own / count) / (other / rows.count) if other > 0 else math.inf
        return cls(count, own / total, lengths**0.5)


@dataclass(frozen=True)
class SiteInspection:
    """What the moments of one site say."""

    site: str
    kind: str
    """The last part of its name: ``resid_pre``, ``mlp_in`` ..."""
    rows: float
    """Sink rows not among them."""
    width: int
    spread: Spread | None
    """None where only the diagonal was collected."""
    mean_share: float
    """Share of the second moment that the mean of the rows holds; the diagonal is enough."""
    channels: Channels
    sinks: Sinks
    cautions: tuple[Caution, ...]

    @property
    def rows_per_dimension(self) -> float:
        """``rows / width``."""
        return self.rows / self.width

    def record(self) -> dict[str, Any]:
        """The site as flat JSON values; figures of the spread are None without full moments."""
        found: dict[str, Any] = {
            "site": self.site,
            "kind": self.kind,
            "rows": self.rows,
            "width": self.width,
            "rows_per_dimension": self.rows_per_dimension,
        }
        figures = self.spread.to_json() if self.spread else {}
        found |= {name: figures.get(name) for name in SPREAD}
        found |= {
            "mean_share": self.mean_share if math.isfinite(self.mean_share) else None,
            "outliers": [asdict(outlier) for outlier in self.channels.outliers],
            "outlier_share": self.channels.outlier_share,
            "silent_channels": self.channels.silent,
            "sinks": self.sinks.count,
            "sink_share": self.sinks.share,
            "sink_times": self.sinks.times if math.isfinite(self.sinks.times) else None,
            "cautions": [asdict(caution) for caution in self.cautions],
        }
        return found


SPREAD = tuple(
    name for name in Spread.__dataclass_fields__ if name not in ("rows", "width", "notes")
)
"""Figures of the spread panel, in the order of the record."""


def inspect_site(
    site: str, rows: Moments, all_rows: Moments, spread: Spread | None, threshold: float
) -> SiteInspection:
    """Put together what the moments of one site say.

    Parameters
    ----------
    rows, all_rows : moments of the site without and with its sink rows.
    spread : the panel of ``rows``; None for diagonal ones.
    threshold : times the median channel from which a channel is an outlier.
    """
    channels, sinks, share = (
        Channels.of(rows, threshold),
        Sinks.of(rows, all_rows),
        mean_share(rows),
    )
    return SiteInspection(
        site=site,
        kind=site.rpartition(".")[2].rpartition(":")[2],
        rows=rows.count,
        width=rows.d,
        spread=spread,
        mean_share=share,
        channels=channels,
        sinks=sinks,
        cautions=tuple(_cautions(rows, spread, share, channels, sinks)),
    )


def _cautions(
    rows: Moments, spread: Spread | None, share: float, channels: Channels, sinks: Sinks
) -> list[Caution]:
    found = []
    if spread is None:
        found.append(
            Caution(
                "diagonal",
                "only the diagonal was collected, so there is no spectrum: collect the site in "
                "full (--for inspect for the residual stream, --for linears for the inputs of "
                "linear layers)",
            )
        )
    else:
        found += [Caution("rows", note) for note in spread.notes]
    if share > 0.5:
        found.append(
            Caution(
                "mean",
                f"the mean holds {share:.0%} of the second moment: cosines between rows are high "
                "whatever the rows say; compare rows about their mean",
            )
        )
    if sinks.share > 0.5:
        found.append(
            Caution(
                "sinks",
                f"{sinks.count:g} sink rows own {sinks.share:.1%} of the second moment and are "
                f"{sinks.times:.0f} times longer than the others: figures with them describe "
                "these rows alone; all figures here leave them out",
            )
        )
    if channels.outlier_share > 0.5:
        found.append(
            Caution(
                "channels",
                f"{len(channels.outliers)} of {rows.d} channels hold "
                f"{channels.outlier_share:.0%} of the variance: the spread is theirs; scale every "
                "channel by its standard deviation to see the others",
            )
        )
    if channels.silent:
        found.append(Caution("silent", f"{channels.silent} of {rows.d} channels never vary"))
    return found


def _energy(moments: Moments) -> float:
    """``sum |x|^2``."""
    return moments.trace + moments.count * float(moments.mean.square().sum())
