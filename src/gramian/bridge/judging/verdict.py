"""The rule that turns figures into advice; this is the only place where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gramian.bridge.judging.bootstrap import Bootstrap, Interval
from gramian.errors import GramianError

VERDICTS = ("keep_old", "bridge", "two_stage", "reindex")
CHANGES = ("bridge", "two_stage", "reindex")
"""What can be done instead of keeping the old model, the cheapest first."""
FEWEST = 20
"""Queries below which percentile intervals are too narrow to be trusted."""
WORDS = {
    "old": "the old model",
    "swap": "new queries in the old index",
    "bridge": "the bridge",
    "two_stage": "two-stage search",
    "reindex": "re-embedding everything",
}


@dataclass(frozen=True)
class Verdict:
    """What to do, and why."""

    verdict: str
    """keep_old, bridge, two_stage or reindex."""
    reason: str
    gains: dict[str, Interval] = field(default_factory=dict)
    """Change -> paired difference from the old model."""
    retained: dict[str, float] = field(default_factory=dict)
    """Change -> its share of re-embedding (of two stages, where that was not measured)."""


def decide(
    bootstrap: Bootstrap,
    systems: Sequence[str],
    measure: str,
    *,
    title: str,
    margin: float = 0.01,
    retain: float = 0.9,
) -> Verdict:
    """Compare the systems that were measured by one measure.

    1. Below 20 queries nothing can be told: ``keep_old``.
    2. A change *is better* when the paired 95 % interval of its difference from the old model
       lies above 0 and the difference is at least ``margin``. When none is, ``keep_old``. Without
       figures of the old model (it is gone) every change counts as better.
    3. Of the better ones the cheapest that keeps ``retain`` of what re-embedding reaches (or, if
       that was not measured, of what two stages reach): ``bridge`` before ``two_stage``.
    4. When neither does, ``reindex``.

    bootstrap : of values by (system, measure). systems : measured ones. title : of the measure,
    for the reason. margin : in units of the measure. retain : share from 0 to 1.

    Raises
    ------
    GramianError : a negative margin, a share outside 0 to 1, or no change among the systems.
    """
    if not margin >= 0 or not 0 <= retain <= 1:
        raise GramianError(
            f"margin is {margin} and retain {retain}; expected at least 0, and a share of 0 to 1"
        )
    changes = [name for name in CHANGES if name in systems]
    if not changes:
        raise GramianError("nothing to decide: neither a bridge nor re-embedding was measured")
    means = {name: bootstrap.mean((name, measure)).value for name in (*changes, *_old(systems))}
    best = "reindex" if "reindex" in changes else changes[-1]
    retained = {
        name: means[name] / means[best] for name in changes if name != best and means[best] > 0
    }
    gains = {}
    if "old" in systems:
        gains = {name: bootstrap.difference((name, measure), ("old", measure)) for name in changes}
    if bootstrap.queries < FEWEST:
        shown = "; ".join(f"{WORDS[name]} {means[name]:.3f}" for name in means)
        reason = (
            f"{bootstrap.queries} queries cannot tell the systems apart, their intervals overlap "
            f"or mean nothing ({title}: {shown}); judge on at least {FEWEST}, better some hundreds"
        )
        return Verdict("keep_old", reason, gains, retained)
    better = [name for name in changes if not gains or _better(gains[name], margin)]
    if not better:
        return Verdict("keep_old", _kept(gains, means, title, margin), gains, retained)
    for name in better:
        if name == best or retained.get(name, 0.0) >= retain:
            break
    else:
        # something is better, but nothing that is keeps enough; re-embedding itself gains nothing
        name = max(better, key=lambda one: means[one])
    return Verdict(
        name, _chosen(name, best, means, gains, retained, title, retain), gains, retained
    )


def _old(systems: Sequence[str]) -> tuple[str, ...]:
    return ("old",) if "old" in systems else ()


def _better(gain: Interval, margin: float) -> bool:
    return gain.low is not None and gain.low > 0 and gain.value >= margin


def _kept(gains: dict[str, Interval], means: dict[str, float], title: str, margin: float) -> str:
    shown = "; ".join(f"{WORDS[name]} {gain.signed()}" for name, gain in gains.items())
    head = f"{title} of the old model is {means['old']:.3f}, and differs by: {shown}."
    if any(gain.value >= margin and not _above(gain) for gain in gains.values()):
        return f"{head} The intervals overlap 0: these queries cannot tell; judge on more"
    if any(_above(gain) for gain in gains.values()):
        return f"{head} What is gained is less than the margin of {margin:g}"
    return f"{head} Nothing is better than the old model by the margin of {margin:g}"


def _above(gain: Interval) -> bool:
    return gain.low is not None and gain.low > 0


def _chosen(
    name: str,
    best: str,
    means: dict[str, float],
    gains: dict[str, Interval],
    retained: dict[str, float],
    title: str,
    retain: float,
) -> str:
    parts = [f"{WORDS[name]} reaches {title} {means[name]:.3f}"]
    if gains:
        parts.append(f"{gains[name].signed()} against the old model ({means['old']:.3f})")
    else:
        parts.append("the old model was not measured")
    if name != best and name in retained:
        parts.append(f"that is {retained[name]:.0%} of {WORDS[best]} ({means[best]:.3f})")
    cheaper = [other for other in retained if CHANGES.index(other) < CHANGES.index(name)]
    for other in cheaper:
        fault = "not better than the old model"
        if retained[other] < retain:
            fault = f"less than the {retain:.0%} asked for"
        parts.append(f"{WORDS[other]} keeps {retained[other]:.0%} of it, {fault}")
    return "; ".join(parts)
