"""What an estimator of paired bridges says of its fit, solved when it is first asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from gramian.bridge.paired.choosing import ENOUGH
from gramian.bridge.paired.families import Asked
from gramian.bridge.paired.feasibility import bound_of_rows
from gramian.bridge.paired.held import HeldRows
from gramian.bridge.paired.solving import Fit, solve
from gramian.bridge.paired.stream import PairStream
from gramian.bridge.paired.trimming import Suspects
from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.measures.procrustes_bound import ProcrustesBound, procrustes_bound
from gramian.moments import JointMoments
from gramian.solvers import Evidence


class Fitted:
    """The fitted attributes of an estimator, which sets those with an underscore."""

    intercept: bool
    _n_features_out: int
    _stream: PairStream | None
    _moments: tuple[dict[str, JointMoments], list[JointMoments]] | None
    _fit: Fit | None
    _suspects: Suspects | None

    @abstractmethod
    def asked(self) -> Asked:
        """What the parameters ask for."""

    @property
    def map_(self) -> LinearMap:
        """The map."""
        return self._solved().map

    @property
    def evidence_(self) -> Evidence:
        """Errors and R2 by fold, conditioning, and what a person should know."""
        return self._solved().evidence

    @property
    def method_(self) -> str:
        """The family that was chosen."""
        return self._solved().setting.method

    @property
    def lam_(self) -> float | None:
        """Its ridge; None when it has none."""
        return self._solved().setting.lam

    @property
    def candidates_(self) -> list[dict[str, Any]]:
        """Everything that was tried, with its error and retrieval on ``select``."""
        return [candidate.to_json() for candidate in self._solved().candidates]

    @property
    def r2_report_(self) -> float:
        """R2 on ``report``; nan when no pairs were set aside."""
        return self._solved().r2

    @property
    def r2_spread_(self) -> float:
        """Standard error of ``r2_report_``."""
        return self._solved().r2_spread

    @property
    def cosine_report_(self) -> float:
        """Mean cosine with the partner on the held rows of ``report``."""
        return self._solved().cosine

    @property
    def retrieval_report_(self) -> dict[str, float]:
        """recall@1, recall@10, mrr and overlap@10 among the held rows of ``report``."""
        finding = self._solved().finding
        return {} if finding is None else finding.to_json()

    @property
    def bound_(self) -> ProcrustesBound | None:
        """What the best rotation reaches at least, by the held rows scaled to length 1.

        With fewer than 20 of them, by the moments, whose rows are as long as they are; None when
        those of Y are diagonal.
        """
        folds = self._moments_now()[0]
        held = [rows for rows in self._held_now().values() if len(rows)]
        if sum(map(len, held)) >= ENOUGH:
            return bound_of_rows(
                np.concatenate([rows.x for rows in held]), np.concatenate([rows.y for rows in held])
            )
        joint = sum(list(folds.values())[1:], next(iter(folds.values())))
        return None if joint.y.is_diagonal else procrustes_bound(joint)

    @property
    def folds_(self) -> dict[str, JointMoments]:
        """Moments of every fold."""
        self._solved()
        return self._moments_now()[0]

    @property
    def suspects_(self) -> Suspects | None:
        """The pairs that ``trim`` left out; None without it."""
        self._solved()
        return self._suspects

    @property
    def n_features_out_(self) -> int:
        """Width of a mapped row."""
        self._solved()
        return int(self._n_features_out)

    def _solved(self) -> Fit:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this Bridge is not fitted yet; call fit with pairs first")
        if self._fit is None:
            folds, reports = self._moments_now()
            if not folds:
                raise GramianError("no pairs are left; add some")
            self._fit = solve(
                folds,
                self._held_now(),
                asked=self.asked(),
                intercept=self.intercept,
                reports=reports,
                said=[] if self._suspects is None else [self._suspects.note],
            )
        return self._fit

    def _moments_now(self) -> tuple[dict[str, JointMoments], list[JointMoments]]:
        if self._stream is not None:
            return self._stream.folds(), []
        assert self._moments is not None
        return self._moments

    def _held_now(self) -> Mapping[str, HeldRows]:
        return {} if self._stream is None else self._stream.held

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")
