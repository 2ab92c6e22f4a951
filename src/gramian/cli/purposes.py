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
    from gramian.compress import depth, heads, kv, mlp, rank, resize, slicing
    from gramian.networks.needs import linears

    jobs: dict[str, Callable[[Checkpoint], Needs]] = {
        "lens": lens.needs,
        "inspect": inspect.needs,
        "compare": compare.needs,
        "linears": linears,
        "rank": rank.needs,
        "depth": depth.needs,
        "heads": heads.needs,
        "kv": kv.needs,
        "mlp": mlp.needs,
        "resize": resize.needs,
        "slice": slicing.needs,
    }
    needs = Needs.of(())
    for part in purpose.split(","):
        name, colon, longest = part.strip().partition(":")
        if name not in jobs:
            raise GramianError(f"--for {name!r}: expected one of {', '.join(jobs)}")
        if colon:
            needs = needs + _up_to(checkpoint, name, longest)
        else:
            needs = needs + jobs[name](checkpoint)
    return needs


def _up_to(checkpoint: Checkpoint, name: str, longest: str) -> Needs:
    """Read ``depth:8`` or ``depth:all``: cuts of up to so many blocks."""
    from gramian.compress import depth

    most = checkpoint.blueprint.depth - 1
    if name != "depth" or not (longest == "all" or longest.isdecimal()):
        raise GramianError(
            f"--for {name}:{longest}: expected depth:N or depth:all, for cuts of up to N blocks"
        )
    return depth.needs(checkpoint, max_remove=most if longest == "all" else int(longest))


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
