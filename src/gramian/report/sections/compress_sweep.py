"""A sweep of compressions: quality against size, one curve per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gramian.report.section import Figure, Section, Series, Table

COLUMNS = ("job", "method", "keep", "size_ratio", "kv_ratio", "perplexity", "agreement")


def compress_sweep_section(
    trials: Sequence[Mapping[str, Any]], *, command: str, anchor: str = "compress-sweep"
) -> Section:
    """Figures and the table of the document of ``gramian compress sweep``."""
    made = [trial for trial in trials if trial["perplexity"] is not None]
    base = next(trial for trial in made if trial["job"] == "none")
    sizes = {
        "size_ratio": "parameters, as a share of the model's",
        "kv_ratio": "bytes of keys and values per token, as a share",
    }
    figures = tuple(
        Figure(
            f"Perplexity by {label}",
            "curves",
            label,
            "perplexity",
            series,
            caption="Down and to the left is better.",
            log=True,
        )
        for size, label in sizes.items()
        if (series := _curves(made, base, size))
    )
    intro = (f"Perplexity as it was {base['perplexity']:.2f}.",)
    notes = tuple(
        f"{trial['job']} {trial['method']} at {trial['keep']:.0%}: {trial['note']}"
        for trial in trials
        if "note" in trial
    )
    table = Table.of("All trials", list(trials), COLUMNS)
    return Section("Quality against size", anchor, intro, figures, (table,), command, notes)


def _curves(
    made: Sequence[Mapping[str, Any]], base: Mapping[str, Any], size: str
) -> tuple[Series, ...]:
    """One curve for every method that changes this size, from the model as it was on."""
    methods = dict.fromkeys((trial["job"], trial["method"]) for trial in made if trial is not base)
    series = []
    for job, method in methods:
        some = [trial for trial in made if (trial["job"], trial["method"]) == (job, method)]
        some = sorted((trial for trial in some if trial[size] != 1), key=lambda t: -t[size])
        if some:
            points = [base, *some]
            series.append(
                Series(
                    f"{job} {method}",
                    [trial[size] for trial in points],
                    [trial["perplexity"] for trial in points],
                )
            )
    return tuple(series)
