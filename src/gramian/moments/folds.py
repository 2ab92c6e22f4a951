"""Folds: which documents fit a map, which choose its settings, which judge it.

A document's fold follows from a hash of its content, never from its place in the data or from
the rows: the same document lands in the same fold on every machine and in every run.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass

from gramian.errors import GramianError

FOLDS = ("train", "select", "report")

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True)
class Shares:
    """The part of all documents that each fold gets; positive, together 1.

    Raises:
        GramianError: a share is not a positive finite number, or the sum is not 1 (to 1e-9).
    """

    train: float = 0.8
    select: float = 0.1
    report: float = 0.1

    def __post_init__(self) -> None:
        for fold in FOLDS:
            share = getattr(self, fold)
            number = isinstance(share, int | float) and not isinstance(share, bool)
            if not number or not math.isfinite(share) or share <= 0:
                raise GramianError(
                    f"share of the fold {fold!r} is {share!r}, expected a number above 0"
                )
            object.__setattr__(self, fold, float(share))
        total = self.train + self.select + self.report
        if abs(total - 1.0) > 1e-9:
            raise GramianError(
                f"shares {self.train} + {self.select} + {self.report} sum to {total}, expected 1"
            )

    def to_json(self) -> dict[str, float]:
        """The three shares by fold."""
        return {fold: getattr(self, fold) for fold in FOLDS}


def fold_of(digest: str, shares: Shares = Shares()) -> str:
    """The fold of one document.

    The digest is hashed once more, with a prefix of its own, so that nothing else that is
    derived from the digest (an order, a sample) can be correlated with the fold.

    Args:
        digest: lower-case hexadecimal SHA-256 of the document's content.
        shares: the part of all documents that each fold gets.

    Returns:
        ``"train"``, ``"select"`` or ``"report"``.

    Raises:
        GramianError: the digest is not 64 lower-case hexadecimal digits.
    """
    if not isinstance(digest, str) or not _DIGEST.match(digest):
        raise GramianError(
            f"document digest {digest!r} is not 64 lower-case hexadecimal digits; "
            "expected hashlib.sha256(content).hexdigest()"
        )
    hashed = hashlib.sha256(f"gramian-fold:{digest}".encode()).digest()
    place = int.from_bytes(hashed[:8], "big") / 2.0**64  # uniform in [0, 1)
    if place < shares.train:
        return "train"
    if place < shares.train + shares.select:
        return "select"
    return "report"
