"""Text that the moments have not seen."""

from __future__ import annotations

from gramian.data import Documents, Packing, documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, MomentSet
from gramian.moments.digests import to_digests, union
from gramian.networks.checkpoint import Checkpoint


def unseen(
    checkpoint: Checkpoint,
    moments: MomentSet,
    docs: Documents,
    *,
    tokens: int,
    length: int = 512,
    seed: int = 0,
) -> Packing:
    """Batches of the documents that are in no fold of ``moments``, packed as those were.

    Raises
    ------
    GramianError : every document was collected.
    """
    collected, _ = union(moments.document_digests(fold) for fold in FOLDS)
    known = set(collected.tolist())
    fresh = [d.text for d in docs if to_digests([d.digest]).tolist()[0] not in known]
    if not fresh:
        raise GramianError(
            f"every document of {docs.name} was collected into these moments; give other text"
        )
    return Packing(
        documents(fresh),
        checkpoint.tokenizer,
        length=length,
        tokens=tokens,
        seed=seed,
        fold="report",
    )
