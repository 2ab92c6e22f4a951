"""The estimator of bridges between two models of which no pairs are known."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch

from gramian.bridge.map_estimator import MapEstimator
from gramian.bridge.unpaired.aligning import Settings, align
from gramian.bridge.unpaired.cloud import Cloud
from gramian.bridge.unpaired.confidence import AmbiguousMatch, Confidence
from gramian.bridge.unpaired.sides import both_sides
from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.registry import method


@method("mini_vec2vec", job="bridge", paper="2510.02348")
class UnpairedBridge(MapEstimator):
    """Map from the vectors of one model to those of another, fitted on different texts.

    A rotation and a scale between the means (mini-vec2vec). Each side is clustered several times;
    the centres are matched by their inner products, which no rotation changes; rows are compared
    by their cosines with matched centres; the rotation onto what they land among is refined. Unlike
    the paper, runs of both sides are matched crosswise and the best matched are trusted, and two
    disjoint halves of the rows are solved apart to see whether they agree.

    It works where both sides are drawn from the same kind of texts and have structure of their
    own. Of a cloud that looks the same after a rotation or a mirror no map can be known: that is
    refused. Rows about different things on the two sides may go unnoticed.

    Parameters
    ----------
    runs : clusterings of either half of either side.
    clusters : of each. neighbours : rows of Y that a mapped row is averaged over, fewer when there
        are under 80 rows for each. steps : of refinement, of either start.
    last_clusters : of the last refinement.
    pool_rows : rows of each side that are kept, drawn at random; means are of all rows.
    normalise : scale mapped rows to length 1.
    on_ambiguous : ``"raise"`` or ``"warn"`` when the confidence is below ``threshold``.
    random_state : integer; everything that is drawn comes from it.

    Attributes
    ----------
    map_ : the map, affine. confidence_ : 0 to 1, see :class:`Confidence`. evidence_ : its parts.
    weight_ : (dx, dy), orthonormal on its shorter side. scale_ : of lengths about the mean.
    mean_in_, mean_out_ : means of both sides.
    """

    def __init__(
        self,
        *,
        runs: int = 12,
        clusters: int = 20,
        neighbours: int = 50,
        steps: int = 30,
        last_clusters: int = 500,
        pool_rows: int = 20_000,
        normalise: bool = False,
        on_ambiguous: str = "raise",
        threshold: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.runs = runs
        self.clusters = clusters
        self.neighbours = neighbours
        self.steps = steps
        self.last_clusters = last_clusters
        self.pool_rows = pool_rows
        self.normalise = normalise
        self.on_ambiguous = on_ambiguous
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, X: Any, Y: Any = None) -> Self:
        """Fit on rows X (n, dx) and Y (m, dy) of different items; both may be memory maps.

        Raises
        ------
        AmbiguousMatch : a GramianError; no rotation stands out.
        GramianError : too few rows, rows that are all equal, NaN or infinity (the row is named),
            settings that do not exist.
        """
        x, y = both_sides(self, X, Y)
        clouds = self.new_cloud(0), self.new_cloud(1)
        for cloud, rows, name in zip(clouds, (x, y), "XY", strict=True):
            cloud.update(rows, name)
        return self._solve(*clouds)

    def fit_clouds(self, source: Cloud, target: Cloud) -> Self:
        """Fit on clouds of :meth:`new_cloud` that rows were offered to in batches.

        Raises
        ------
        As :meth:`fit`.
        """
        for name in ("feature_names_in_", "n_features_in_"):
            self.__dict__.pop(name, None)
        self._solve(source, target)
        self.n_features_in_ = source.width
        return self

    def new_cloud(self, side: int) -> Cloud:
        """A cloud for the rows of side 0 (X) or 1 (Y), without any."""
        return Cloud(self.pool_rows, seed=(self.random_state, side))

    def _solve(self, source: Cloud, target: Cloud) -> Self:
        if self.on_ambiguous not in ("raise", "warn"):
            raise GramianError(f"on_ambiguous is {self.on_ambiguous!r}, expected raise or warn")
        settings = Settings(
            self.runs, self.clusters, self.neighbours, self.steps, self.last_clusters
        )
        x, radius = source.centred("X")
        y, reach = target.centred("Y")
        found = align(x, y, settings, np.random.default_rng((self.random_state, 2)))
        if found.confidence.value < self.threshold:
            refusal = AmbiguousMatch(found.confidence)
            if self.on_ambiguous == "raise":
                raise refusal
            warnings.warn(str(refusal), stacklevel=3)
        # The part of x that a map to fewer dimensions keeps is shorter than x
        kept = float(np.linalg.norm(x @ found.weight, axis=1).mean())
        self.weight_, self.scale_ = found.weight, reach / (radius * kept)
        self.mean_in_, self.mean_out_ = source.mean, target.mean
        # y = s W^T (x - mean_x) + mean_y
        weight = torch.from_numpy(self.scale_ * self.weight_.T)
        bias = torch.from_numpy(self.mean_out_) - weight @ torch.from_numpy(self.mean_in_)
        self._map = Affine(Dense(weight), bias)
        self.evidence_: Confidence = found.confidence
        self.confidence_ = found.confidence.value
        self.rows_ = (source.count, target.count)
        self._n_features_out = target.width
        return self
