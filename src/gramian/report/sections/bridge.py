"""The judgement of a bridge: every system with its interval, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gramian.report.section import Figure, Section, Series, Table

if TYPE_CHECKING:
    from gramian.bridge.judging import Figures, Interval, Judgement

NAMES = {
    "old": "old model",
    "swap": "do nothing (swap)",
    "bridge": "bridge",
    "csls": "bridge, CSLS",
    "two_stage": "two stages",
    "reindex": "re-embedding",
}
WIDTH = 2 * 1.96
"""Of a 95 % interval in standard errors."""


def measure_names(k: int) -> dict[str, str]:
    """Field of `Figures` -> heading."""
    return {
        "recall": f"recall@{k}",
        "ndcg": "nDCG@10",
        "mrr": "MRR",
        "overlap": f"overlap@{k}",
    }


def measured(judgement: Judgement) -> dict[str, Figures]:
    """The systems that have figures, in the order of a table."""
    found = dict(judgement.systems) | {"csls": judgement.csls}
    return {name: figures for name in NAMES if (figures := found.get(name)) is not None}


def bridge_section(judgement: Judgement, *, command: str, anchor: str = "bridge") -> Section:
    """Bars per measure, the figures with their intervals, and the verdict with its reason."""
    systems = measured(judgement)
    headings = {
        name: heading
        for name, heading in measure_names(judgement.k).items()
        if any(getattr(figures, name) is not None for figures in systems.values())
    }
    rows = tuple(
        (NAMES[system], *(_text(getattr(figures, name)) for name in headings))
        for system, figures in systems.items()
    )
    tables = [Table("Systems on the same queries and items", ("system", *headings.values()), rows)]
    if judgement.decision.gains:
        gained = tuple(
            (NAMES[name], gain.value, gain.low, gain.high, judgement.decision.retained.get(name))
            for name, gain in judgement.decision.gains.items()
        )
        columns = ("change", "gain over the old model", "low", "high", "share of the best")
        tables.append(
            Table(f"What a change gains, by {headings[judgement.measure]}", columns, gained)
        )
    shift = judgement.shift
    if shift is not None:
        calibrated = (
            "" if shift.ks_calibrated is None else f", {shift.ks_calibrated:.2f} calibrated"
        )
        note = (
            f"Scores move: the median goes from {shift.median_old:.3f} to "
            f"{shift.median_bridge:.3f}, Kolmogorov-Smirnov distance {shift.ks:.2f}{calibrated}. "
            "Thresholds on scores do not carry over by themselves; a calibration table does that."
        )
    else:
        note = "Without queries of the old model nothing is known of how its scores move."
    return Section(
        title=f"Verdict: {judgement.verdict}",
        anchor=anchor,
        intro=(
            f"{judgement.reason}.",
            f"{judgement.queries:,} queries, {judgement.items:,} of {judgement.corpus:,} items, "
            f"{judgement.direction}, {judgement.metric}. Intervals are 95 %, from resampled "
            "queries.",
            note,
        ),
        figures=tuple(_bars(name, heading, systems) for name, heading in headings.items()),
        tables=tuple(tables),
        command=command,
        warnings=judgement.warnings,
    )


def _bars(name: str, heading: str, systems: dict[str, Figures]) -> Figure:
    shown = {NAMES[system]: getattr(figures, name) for system, figures in systems.items()}
    given = {system: interval for system, interval in shown.items() if interval is not None}
    series = Series(
        heading,
        tuple(given),
        tuple(interval.value for interval in given.values()),
        tuple(f"{system}: {interval}" for system, interval in given.items()),
        tuple(_error(interval) for interval in given.values()),
    )
    return Figure(heading, "bars", "system", heading, (series,), caption="With standard errors.")


def _error(interval: Interval) -> float | None:
    if interval.low is None or interval.high is None:
        return None
    return (interval.high - interval.low) / WIDTH


def _text(interval: Interval | None) -> str | None:
    return None if interval is None else str(interval)
