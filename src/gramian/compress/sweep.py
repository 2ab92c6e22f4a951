"""Every compression at several sizes, side by side on one text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gramian.compress import depth, heads, kv, mlp, rank, slicing
from gramian.errors import GramianError
from gramian.evaluate import Reading, read
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, Plan, realise

KEEP = (0.9, 0.8)

Planner = Callable[[Checkpoint, MomentSet, float], Plan]


@dataclass(frozen=True)
class Trial:
    """One way to compress, at one size, and what became of the model."""

    job: str
    method: str
    keep: float
    size_ratio: float
    """Parameters over those of the model as it was."""
    kv_ratio: float
    """Bytes of keys and values per token, likewise."""
    perplexity: float | None
    """None where it could not be made; ``note`` says why."""
    agreement: float | None
    """Positions where the model as it was ranks the same token first."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Every field, ``note`` where there is one."""
        found: dict[str, Any] = {
            "job": self.job,
            "method": self.method,
            "keep": self.keep,
            "size_ratio": self.size_ratio,
            "kv_ratio": self.kv_ratio,
            "perplexity": self.perplexity,
            "agreement": self.agreement,
        }
        return found | ({"note": self.note} if self.note else {})


def _blocks(method: depth.Method) -> Planner:
    def plan(checkpoint: Checkpoint, moments: MomentSet, keep: float) -> Plan:
        gone = max(1, round((1 - keep) * checkpoint.blueprint.depth))
        return depth.plan(checkpoint, moments, remove=gone, method=method)

    return plan


PLANNERS: Mapping[str, Mapping[str, Planner]] = {
    "depth": {"replace": _blocks("replace"), "drop": _blocks("drop")},
    "mlp": {
        "refit": lambda c, m, keep: mlp.plan(c, m, keep=keep),
        "norm": lambda c, m, keep: mlp.plan(c, m, keep=keep, select="norm", refit=False),
    },
    "heads": {"refit": lambda c, m, keep: heads.plan(c, m, keep=keep)},
    "slice": {"shared": lambda c, m, keep: slicing.plan(c, m, keep=keep)},
    "rank": {
        "greedy": lambda c, m, keep: rank.plan(c, m, keep=keep),
        "svd": lambda c, m, keep: rank.plan(c, m, keep=keep, metric="none", allocate="uniform"),
    },
    "kv": {
        "palu": lambda c, m, keep: kv.plan(c, m, keep=keep),
        "svd": lambda c, m, keep: kv.plan(c, m, keep=keep, method="svd"),
    },
}
"""Job -> method -> its plan for a share to keep. Naive counterparts stand beside the methods."""


def sweep(
    checkpoint: Checkpoint,
    moments: MomentSet,
    ids: Tensor,
    *,
    jobs: Sequence[str] = tuple(PLANNERS),
    keep: Sequence[float] = KEEP,
    length: int = 512,
    windows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Trial]:
    """Yield the model as it was, then every method at every size; all from one collection.

    ``keep`` counts what each method treats (blocks, neurons, directions), so that sizes of the
    model differ between methods: compare along ``size_ratio`` and ``kv_ratio``. What the moments
    or the network do not allow is a trial without perplexity that says why.

    Parameters
    ----------
    moments : collected with ``--for depth,mlp,heads,slice,rank,kv``, or some of these.
    ids : (n,) token ids of a text that the moments have not seen.
    length, windows : as in :func:`gramian.evaluate.perplexity`.
    progress : called with the trials done and in all.

    Raises
    ------
    GramianError : an unknown job, a share outside (0, 1), a text that does not fit the model.
    """
    for job in jobs:
        if job not in PLANNERS:
            raise GramianError(f"job {job!r}: expected some of {', '.join(PLANNERS)}")
    for share in keep:
        if not 0 < share < 1:
            raise GramianError(f"keep is {share}, expected shares between 0 and 1")
    todo = [
        (job, method, share)
        for job in jobs
        for method in PLANNERS[job]
        for share in sorted(keep)[::-1]
    ]
    before = read(checkpoint.model, ids, length=length, windows=windows)
    yield Trial("none", "as it was", 1.0, 1.0, 1.0, before.perplexity.perplexity, 1.0)
    for done, (job, method, share) in enumerate(todo, start=1):
        try:
            plan = PLANNERS[job][method](checkpoint, moments, share)
        except GramianError as error:
            yield Trial(job, method, share, 1.0, 1.0, None, None, note=str(error))
        else:
            after = read(realise(checkpoint, plan), ids, length=length, windows=windows)
            yield _judged(plan, after, before, job, method, share)
        if progress:
            progress(done, len(todo))


def _judged(
    plan: Plan, after: Reading, before: Reading, job: str, method: str, share: float
) -> Trial:
    found = plan.evidence
    cached = found["kv_bytes_per_token_before"]
    return Trial(
        job,
        method,
        share,
        size_ratio=found["parameters"] / found["parameters_before"],
        kv_ratio=found["kv_bytes_per_token"] / cached if cached else 1.0,
        perplexity=after.perplexity.perplexity,
        agreement=after.agreement(before),
    )
