"""Channels far louder than the others, and channels that never vary."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gramian.errors import GramianError
from gramian.moments import Moments

THRESHOLD = 6.0
"""Times the median channel from which a channel is called an outlier."""


@dataclass(frozen=True)
class Outlier:
    """One channel whose spread or mean is far above that of the median channel."""

    channel: int
    std_times: float
    """Its standard deviation over the median one."""
    mean_times: float
    """The size of its mean over the median root mean square of a channel."""

    @property
    def times(self) -> float:
        """The larger of the two."""
        return max(self.std_times, self.mean_times)


@dataclass(frozen=True)
class Channels:
    """What the diagonal of second moments says about the channels of a site."""

    outliers: tuple[Outlier, ...]
    """The furthest first."""
    outlier_share: float
    """Share of the variance that the outliers hold."""
    silent: int
    """Channels that never vary."""

    @classmethod
    def of(cls, moments: Moments, threshold: float = THRESHOLD) -> Channels:
        """Read from full or diagonal moments.

        The median is that of the channels that vary.

        Raises
        ------
        GramianError : no rows, or a threshold of 1 or less.
        """
        if not threshold > 1:
            raise GramianError(f"threshold is {threshold!r}, expected a number above 1")
        if moments.count <= 0:
            raise GramianError("channels of no rows; collect more text")
        variance = moments.variances.clamp_min(0.0) / moments.count
        square = variance + moments.mean.square()
        # A float64 sum of equal rows leaves up to about eps^2 of their square.
        varies = variance > 1e-30 * square
        silent = int((~varies).sum())
        if not bool(varies.any()):
            return cls((), 0.0, silent)
        std, rms = variance.sqrt(), square.sqrt()
        std_times = torch.where(varies, std / std[varies].quantile(0.5), 0.0)
        mean_times = moments.mean.abs() / rms[varies].quantile(0.5)
        far = torch.maximum(std_times, mean_times)
        order = far.argsort(descending=True, stable=True)
        chosen = [int(i) for i in order[: int((far >= threshold).sum())]]
        outliers = tuple(Outlier(i, float(std_times[i]), float(mean_times[i])) for i in chosen)
        share = float(variance[chosen].sum() / variance.sum()) if chosen else 0.0
        return cls(outliers, share, silent)
