"""How far a rotation that was found without pairs can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramian.bridge.unpaired.clusters import Rows
from gramian.bridge.unpaired.matching import mutual, polar, scores, some, unit
from gramian.errors import GramianError

AXES = 8
"""Principal axes about which the cloud is mirrored."""
APART = 0.05
"""Rivals that lie nearer than this do not count as others."""
STRUCTURE = 0.02
"""The least gain over a random rotation that figures are taken relative to."""


@dataclass(frozen=True)
class Confidence:
    """What speaks for a rotation, without a single pair; each figure is 1 at best.

    agreement : rows whose images under two rotations find each other first, among the images of
        1,000; the rotations started on disjoint halves of both sides.
    fit : how near mapped rows come to rows of the target, from 0, as near as after a random
        rotation, to 1, as near as other rows of the target.
    distinctness : how much worse the best rival fits, for how far away it is; 0 when it fits as
        well, 1/2 or more when it fits no better than chance. Rivals are the other rotations
        that were found, the negative, and mirrors about the principal axes of the source.
    rival : which rival that is.
    mutual : mapped rows that are the nearest of their nearest, over the same among target rows.
    clusters : mean cosine of the centres of both sides once one started the other.
    assignment_gap : how much worse the second-best matching of centres was, median over the runs.
    """

    agreement: float
    fit: float
    distinctness: float
    rival: str
    mutual: float
    clusters: float
    assignment_gap: float

    @property
    def value(self) -> float:
        """The least of agreement, fit and three times the distinctness, within 0 to 1.

        Right rotations of clouds of one distribution are at 0.6 and more, wrong ones at 0.4 and
        less. It cannot see that the two sides are about different things.
        """
        return float(np.clip(min(self.agreement, self.fit, 3 * self.distinctness), 0, 1))

    def __str__(self) -> str:
        weakest = {
            self.agreement: f"starts on two halves of the rows agree by {self.agreement:.2f} only",
            self.fit: f"mapped rows fill the target by {self.fit:.2f} only",
            3 * self.distinctness: f"{self.rival} fits about as well",
        }
        said = weakest[min(weakest)]
        return f"confidence {self.value:.2f}: {said}" if self.value < 0.9 else "confidence 0.9+"

    def to_json(self) -> dict[str, Any]:
        """All figures, and ``value``."""
        return {
            "value": self.value,
            "agreement": self.agreement,
            "fit": self.fit,
            "distinctness": self.distinctness,
            "rival": self.rival,
            "mutual": self.mutual,
            "clusters": self.clusters,
            "assignment_gap": self.assignment_gap,
        }


class AmbiguousMatch(GramianError):
    """No rotation stands out; ``confidence`` says why."""

    def __init__(self, confidence: Confidence) -> None:
        self.confidence = confidence
        super().__init__(
            f"the two sides cannot be matched without pairs ({confidence}). Give more rows, rows "
            "about the same things on both sides, or some pairs to a paired bridge; or take the "
            'map as it is with on_ambiguous="warn"'
        )


def measure(
    x: Rows,
    y: Rows,
    weight: Rows,
    others: Sequence[Rows],
    starts: tuple[Rows, Rows],
    *,
    clusters: float,
    gap: float,
    draw: np.random.Generator,
) -> Confidence:
    """The confidence in a rotation, by rows of both sides.

    others : rotations that were found on the way. starts : the two that started on
    disjoint halves.
    clusters, gap : as measured on the way.
    """
    queries = some(x, 500, draw)
    own, index = np.split(some(y, 4500, draw), [min(500, len(y) // 4)])
    reached = float(scores(queries @ weight, index).mean())
    ceiling = float(scores(own, index).mean())
    turned = [polar(draw.standard_normal(weight.shape)) for _ in range(3)]
    chance = float(np.mean([scores(queries @ turn, index) for turn in turned]))
    found = (np.inf, "no rival")
    for name, rival in _rivals(x, weight, others):
        apart = 1 - likeness(queries, weight, rival)
        if apart > APART:
            worse = reached - float(scores(queries @ rival, index).mean())
            found = min(found, (worse / max(reached - chance, STRUCTURE) / apart, name))
    among = min(len(queries), len(own), len(index))
    possible = mutual(own[:among], index[:among])
    return Confidence(
        agreement=together(some(x, 1000, draw), *starts),
        fit=(reached - chance) / max(ceiling - chance, STRUCTURE),
        distinctness=min(found[0], 1.0),
        rival=found[1],
        mutual=mutual(queries[:among] @ weight, index[:among]) / max(possible, 1 / among),
        clusters=clusters,
        assignment_gap=gap,
    )


def likeness(rows: Rows, one: Rows, other: Rows) -> float:
    """Mean cosine of the same rows under two maps."""
    return float((unit(rows @ one) * unit(rows @ other)).sum(1).mean(dtype=np.float64))


def together(rows: Rows, one: Rows, other: Rows) -> float:
    """The share of rows whose image under one map is nearest to that under the other."""
    nearest = (unit(rows @ one) @ unit(rows @ other).T).argmax(1)
    return float((nearest == np.arange(len(rows))).mean())


def _rivals(x: Rows, weight: Rows, others: Sequence[Rows]) -> list[tuple[str, Rows]]:
    _, axes = np.linalg.eigh(x.T @ x)
    top = axes.T[::-1][:AXES]
    return [
        ("the negative", -weight),
        *(
            (f"a mirror about axis {i}", weight - 2 * np.outer(v, v @ weight))
            for i, v in enumerate(top, start=1)
        ),
        *(("another start", other) for other in others),
    ]
