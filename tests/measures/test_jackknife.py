"""The jackknife of unequal folds against closed forms and against repetition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import cka, jackknife, jackknife_error
from gramian.moments import JointMoments, Moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cut(rows: Tensor, sizes: list[int]) -> list[Moments]:
    return [Moments.from_rows(part) for part in rows.split(sizes)]


def first_mean(moments: Moments) -> float:
    return float(moments.mean[0])


SIZES = [5, 30, 12, 1, 52]


def test_the_mean_of_unequal_folds() -> None:
    """``1/g sum_j (mean_j - mean)^2 / (n / m_j - 1)``."""
    x = normal(100, 1)
    value, error = jackknife(first_mean, cut(x, SIZES))
    assert value == pytest.approx(float(x.mean()), abs=1e-13)
    want = sum(
        float(part.mean() - x.mean()) ** 2 / (100 / len(part) - 1) for part in x.split(SIZES)
    ) / len(SIZES)
    assert error == pytest.approx(math.sqrt(want), rel=1e-10)


def test_one_row_a_fold_is_the_standard_error_of_the_mean() -> None:
    x = normal(50, 1)
    _, error = jackknife(first_mean, cut(x, [1] * 50))
    assert error == pytest.approx(float(x.std()) / math.sqrt(50), rel=1e-10)


def test_equal_folds_are_the_classical_jackknife() -> None:
    x, y = normal(120, 4), normal(120, 3, seed=1)
    y[:, 0] += x[:, 0]
    groups = torch.arange(120).split(20)
    folds = [JointMoments.from_rows(x[i], y[i]) for i in groups]
    without = torch.tensor(
        [
            cka(JointMoments.from_rows(x[keep], y[keep]))
            for keep in (torch.cat([g for g in groups if g is not i]) for i in groups)
        ],
        dtype=torch.float64,
    )
    value, error = jackknife(cka, folds)
    assert value == pytest.approx(cka(JointMoments.from_rows(x, y)), abs=1e-12)
    want = math.sqrt(5 / 6 * float((without - without.mean()).square().sum()))
    assert error == pytest.approx(want, rel=1e-9)


def test_unequal_folds_by_definition() -> None:
    x = normal(100, 3)
    folds = cut(x, SIZES)

    def spread(moments: Moments) -> float:
        return math.log(moments.trace / moments.count)

    value, g, n = spread(Moments.from_rows(x)), len(SIZES), 100
    left_out = []
    for j in range(g):
        kept = torch.cat([part for i, part in enumerate(x.split(SIZES)) if i != j])
        left_out.append(spread(Moments.from_rows(kept)))
    centre = g * value - sum((1 - m / n) * t for m, t in zip(SIZES, left_out, strict=True))
    want = 0.0
    for m, t in zip(SIZES, left_out, strict=True):
        h = n / m
        want += (h * value - (h - 1) * t - centre) ** 2 / (h - 1) / g
    got = jackknife(spread, folds)
    assert got == (pytest.approx(value, rel=1e-12), pytest.approx(math.sqrt(want), rel=1e-9))


def test_documents_not_rows_are_the_units() -> None:
    """Rows that repeat inside a document do not make the error smaller; its size is right."""
    errors, values = [], []
    for seed in range(60):
        topics = normal(24, 1, seed=seed)
        folds = [Moments.from_rows(topic.expand(30, 1)) for topic in topics]
        value, error = jackknife(first_mean, folds)
        values.append(value)
        errors.append(error)
    assert sum(errors) / 60 == pytest.approx(1 / math.sqrt(24), rel=0.05)
    assert float(torch.tensor(values).std()) == pytest.approx(1 / math.sqrt(24), rel=0.25)


def test_empty_folds_count_for_nothing_and_two_are_needed() -> None:
    x = normal(100, 1)
    folds = cut(x, SIZES)
    empty = Moments.from_rows(torch.zeros(0, 1))
    assert jackknife(first_mean, [empty, *folds, empty]) == jackknife(first_mean, folds)
    for few in ([], folds[:1], [folds[0], empty]):
        with pytest.raises(GramianError, match="folds with rows"):
            jackknife(first_mean, few)


def test_no_answer_has_no_error() -> None:
    folds = [JointMoments.from_rows(normal(9, 2, seed=i), torch.ones(9, 2)) for i in range(3)]
    assert all(math.isnan(number) for number in jackknife(cka, folds))


def test_what_the_measure_refuses_is_refused() -> None:
    folds = [JointMoments.from_rows(normal(n, 2), normal(n, 2, seed=1)) for n in (2, 30)]
    with pytest.raises(GramianError, match="4 rows"):
        jackknife(cka, folds)


def test_the_error_of_values_that_are_known() -> None:
    parts = normal(100, 1).split(SIZES)
    whole = torch.cat(parts)
    left_out = [float(torch.cat([part for part in parts if part is not j]).mean()) for j in parts]
    error = jackknife_error(float(whole.mean()), left_out, SIZES)
    assert error == pytest.approx(jackknife(first_mean, cut(whole, SIZES))[1], rel=1e-10)
    assert jackknife_error(2.0, [2.0, 2.0], [3, 4]) == 0
    for values, counts in (([1.0], [5]), ([1.0, 2.0], [5, 5, 5])):
        with pytest.raises(GramianError, match="two folds or more"):
            jackknife_error(1.0, values, counts)
