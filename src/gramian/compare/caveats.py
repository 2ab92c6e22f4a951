"""What to beware of when reading a comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gramian.compare.comparison import Matrix
from gramian.moments import MomentSet

LOUD = 0.5
"""A site counts as decided by one channel when it owns this share of ``|Cxx|_F^2``."""
FEW_DOCUMENTS = 30
FEW_FOLDS = 5
THIN = 10
"""Rows per dimension below which canonical correlations are mostly chance."""


def caveats(
    moments: MomentSet,
    other: MomentSet | None,
    matrices: Sequence[Matrix],
    x: Sequence[str],
    y: Sequence[str],
) -> list[str]:
    """Sentences, each about something that this comparison cannot tell."""
    found: list[str] = []
    measures = {matrix.measure for matrix in matrices}
    undefined = sorted({m.title for m in matrices if bool(m.values.isnan().any())})
    if undefined:
        found.append(
            f"some values of {'; '.join(undefined)} do not exist: a site does not vary, or its "
            "rows are too few to tell its spread from noise"
        )
    sets = [moments] if other is None else [moments, other]
    documents = min(one.documents.count for one in sets)
    if 0 < documents < FEW_DOCUMENTS:
        found.append(
            f"only {documents} documents: rows of one document resemble each other, so the "
            "number of rows overstates what is known"
        )
    if any(m.errors is not None for m in matrices) and len(moments.folds) < FEW_FOLDS:
        found.append(
            f"standard errors come from {len(moments.folds)} folds of documents and are rough"
        )
    elif all(m.errors is None for m in matrices) and len(moments.folds) < 2:
        found.append("no standard errors: the documents lie in one fold")
    if measures & {"cka", "cka_plain"}:
        loud = _loud(moments, [*x, *y])
        if loud:
            found.append(
                f"one channel owns more than half of the similarity of {len(loud)} sites to "
                f"themselves (such as {loud[0]}): CKA there is about that channel; look at "
                "cka_standardised too"
            )
    if measures & {"cca", "cca_r2", "pwcca", "regression_r2"}:
        rows = sum(count["rows"] for count in moments.counts.values())
        widest = max(part.dims[0] for part in moments.index.parts if part.kind == "site")
        if rows < THIN * widest:
            found.append(
                f"{rows:,} rows for {widest} dimensions: canonical correlations and R² of so few "
                "rows are high by chance alone, even of sites that have nothing in common"
            )
    if other is not None:
        found.insert(
            0,
            "the two sets were collected apart: spectra and distances between covariances say "
            "how sites are shaped, not whether they hold the same about the same text",
        )
    return found


def _loud(moments: MomentSet, sites: Sequence[str]) -> list[str]:
    """Sites of which one channel's variance is most of the Frobenius norm of the scatter."""
    loud = []
    for site in dict.fromkeys(sites):
        scatter = moments.moments(site, moments.folds).scatter
        total = float(scatter.square().sum())
        if total > 0 and float(scatter.diagonal().max()) ** 2 > LOUD * total:
            loud.append(site)
    return loud


def different_documents(a: MomentSet, b: MomentSet) -> list[str]:
    """What two sets made apart do not share."""
    digests = [np.concatenate([one.document_digests(fold) for fold in one.folds]) for one in (a, b)]
    if not all(len(part) for part in digests):
        return ["the documents behind one of the sets are not recorded"]
    both = len(np.intersect1d(digests[0], digests[1]))
    if both == len(digests[0]) == len(digests[1]):
        return []
    return [
        f"the two sets are of different documents: {len(digests[0])} and {len(digests[1])}, "
        f"{both} of them in both; a difference may be one of the text"
    ]
