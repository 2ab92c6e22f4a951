"""What a collection is for, and how it shares out its documents: text of options, read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs

if TYPE_CHECKING:
    from gramian.moments import Shares
    from gramian.networks.paired_needs import PairedNeeds


def fold_shares(text: str) -> Shares:
    """Read ``0.8,0.1,0.1``.

    Raises
    ------
    GramianError : not three positive numbers that sum to 1.
    """
    from gramian.moments import Shares

    try:
        train, select, report = (float(part) for part in text.split(","))
    except ValueError:
        raise GramianError(
            f"--shares {text!r}: expected three numbers for train, select and report, such as "
            "0.8,0.1,0.1"
        ) from None
    return Shares(train, select, report)


def needs_for(checkpoint: Checkpoint, purpose: str) -> Needs:
    """The needs of the jobs named in ``--for``.

    Raises
    ------
    GramianError : an unknown job.
    """
    from gramian import compare, inspect, lens
    from gramian.networks.needs import linears, rank

    jobs: dict[str, Callable[[Checkpoint], Needs]] = {
        "lens": lens.needs,
        "inspect": inspect.needs,
        "compare": compare.needs,
        "linears": linears,
        "rank": rank,
    }
    needs = Needs.of(())
    for name in purpose.split(","):
        if name.strip() not in jobs:
            raise GramianError(f"--for {name.strip()!r}: expected one of {', '.join(jobs)}")
        needs = needs + jobs[name.strip()](checkpoint)
    return needs


def joint_needs(a: Checkpoint, b: Checkpoint, purpose: str, *, inside: bool) -> PairedNeeds:
    """The needs of a joint collection of two networks.

    Raises
    ------
    GramianError : a job other than compare, the only one that reads two networks.
    """
    from gramian.networks.paired_needs import PairedNeeds

    if [name.strip() for name in purpose.split(",")] != ["compare"]:
        raise GramianError(
            f"--for {purpose}: two networks are collected together for compare alone; give "
            "--for compare, or one network"
        )
    return PairedNeeds.of(a, b, inside=inside)
