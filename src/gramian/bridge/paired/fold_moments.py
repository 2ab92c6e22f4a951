"""Moments of folds: put together, rid of what is not needed, subtracted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments, Moments


def plain(joint: JointMoments) -> JointMoments:
    """Without the sums of fourth order, which no bridge needs."""
    x, y = (Moments(m.count, m.count2, m.mean, m.scatter) for m in (joint.x, joint.y))
    return JointMoments(x, y, joint.cross)


def folds_of_moments(
    train: JointMoments,
    select: JointMoments | None,
    report: JointMoments | Sequence[JointMoments] | None,
) -> tuple[dict[str, JointMoments], list[JointMoments]]:
    """Folds by name, and the disjoint parts of ``report``.

    Raises
    ------
    GramianError : moments of unequal widths, or diagonal ones of x.
    """
    parts = [report] if isinstance(report, JointMoments) else list(report or [])
    folds = {"train": plain(train)}
    if select is not None:
        folds["select"] = plain(select)
    if parts:
        folds["report"] = plain(sum(parts[1:], parts[0]))
    if len({(joint.x.d, joint.y.d) for joint in folds.values()}) > 1:
        raise GramianError("the folds have moments of different widths; expected one pair")
    if train.x.is_diagonal:
        raise GramianError("train has diagonal moments of x; collect them with order='full'")
    return folds, parts


def without(whole: JointMoments, part: JointMoments) -> JointMoments:
    """Moments of the pairs of ``whole`` that are not in ``part``: Chan's merge, solved for one."""
    n, m = whole.count, part.count
    if m == 0:
        return whole
    rest = n - m
    if rest <= 0:
        raise GramianError(f"{m:g} pairs to take from {n:g}: none would be left")

    def less(total: Moments, gone: Moments) -> tuple[Moments, Tensor]:
        # mean = (n mean_t - m mean_g) / (n - m); S = S_t - S_g - (m n / (n - m)) g g^T
        gap = gone.mean - total.mean
        factor = m * n / rest
        if total.is_diagonal:
            scatter = (total.scatter - gone.scatter - factor * gap.square()).clamp_min(0.0)
        else:
            scatter = torch.addr(total.scatter - gone.scatter, gap, gap, alpha=-factor)
        mean = total.mean - gap * (m / rest)
        return Moments(rest, total.count2 - gone.count2, mean, scatter), gap

    x, gap_x = less(whole.x, part.x)
    y, gap_y = less(whole.y, part.y)
    cross = torch.addr(whole.cross - part.cross, gap_x, gap_y, alpha=-(m * n / rest))
    return JointMoments(x, y, cross)
