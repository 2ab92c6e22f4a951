"""How much of an old space can still be read, linearly, from a new one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.moments import JointMoments, squared_error
from gramian.registry import method
from gramian.solvers import ridge
from gramian.solvers.judged import r_squared

K = TypeVar("K", bound=Hashable)


@method("readable_fraction", job="bridge", paper="2303.14595")
def readable_fraction(
    train: JointMoments,
    select: JointMoments | None = None,
    report: JointMoments | None = None,
) -> float:
    """Share of the variance of the old space that the best affine map of the new one explains.

    ``1 - tr(Soo - Son Snn^-1 Sno) / tr Soo`` with ``n`` new and ``o`` old: the least of the loss
    of backward feature projection. 1 when the new space is an invertible linear change of the old
    one, 0 when nothing of it is left; below zero where a map does worse on rows it has not seen
    than their mean. Nan when the old space does not vary.

    Parameters
    ----------
    train, select, report : moments with the new space as ``x`` and the old one as ``y``, which may
        be diagonal. The ridge is chosen on ``select`` and the share stated on the last fold that
        is given, of a map that has not seen it.

    Raises
    ------
    GramianError : ``train`` alone with no more rows than dimensions plus one, where everything is
        readable by counting alone; see also `ridge`.
    """
    fold, map = _reading(train, select, report)
    return r_squared(squared_error(fold, map), fold)


@method("readable_by_class", job="bridge", paper="2303.14595")
def readable_by_class(
    train: JointMoments, classes: Mapping[K, JointMoments], select: JointMoments | None = None
) -> dict[K, float]:
    """`readable_fraction` of the rows of every class, by the one map of all classes.

    The share of the variance about the mean of the class: low where the new space has given up
    what told the members of a class apart. Nan for a class of equal or of no rows.

    Parameters
    ----------
    train, select : as in `readable_fraction`.
    classes : moments of rows to judge on by class, preferably not those of ``train``.

    Raises
    ------
    GramianError : as `readable_fraction`.
    """
    _enough(train, select)
    map = ridge(train, select).map
    return {
        name: r_squared(squared_error(joint, map), joint) if joint.count > 0 else float("nan")
        for name, joint in classes.items()
    }


def _reading(
    train: JointMoments, select: JointMoments | None, report: JointMoments | None
) -> tuple[JointMoments, LinearMap]:
    """The fold to state a share on, and a map that has not seen it."""
    if report is not None and report.count > 0:
        return report, ridge(train, select, report).map
    if select is not None and select.count > 0:
        return select, ridge(train, select, refit=False).map
    _enough(train, select)
    return train, ridge(train, lambdas=[0.0]).map


def _enough(train: JointMoments, select: JointMoments | None) -> None:
    if select is None and train.count <= train.x.d + 1:
        raise GramianError(
            f"readable_fraction: {train.count:g} rows and {train.x.d} dimensions that predict fit "
            f"everything by counting alone; give more than {train.x.d + 1} rows, or a fold to "
            "judge on"
        )
