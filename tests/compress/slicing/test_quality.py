"""A line through measured points says how far off it is."""

from __future__ import annotations

import math

import pytest

from gramian.compress.slicing import fit_quality
from gramian.errors import GramianError


def test_a_planted_line_is_found():
    x = [0.0, 0.01, 0.05]
    fit = fit_quality(x, [math.exp(3 + 20 * value) for value in x])
    assert fit.intercept == pytest.approx(3)
    assert fit.slope == pytest.approx(20)
    assert fit.error == pytest.approx(0, abs=1e-12)
    assert fit.predict(0.02) == pytest.approx(math.exp(3.4))


def test_points_off_the_line_are_the_error():
    fit = fit_quality([0.0, 0.1, 0.2], [10, 20, 20])
    gaps = [p / fit.predict(x) for x, p in fit.points]
    assert fit.error == pytest.approx(max(max(g, 1 / g) for g in gaps) - 1)


def test_two_points_leave_nothing_to_judge_by():
    assert fit_quality([0.0, 0.1], [10, 20]).error is None


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([0.1], [10], "two different shares"),
        ([0.1, 0.1], [10, 11], "two different shares"),
        ([0.1, 0.2], [10], "as many of both"),
        ([0.1, 1.2], [10, 11], "from 0 to 1"),
        ([0.1, math.nan], [10, 11], "from 0 to 1"),
        ([0.1, 0.2], [10, math.inf], "finite"),
        ([0.1, 0.2], [10, 0.5], "from 1 on"),
    ],
)
def test_bad_points(x, y, message):
    with pytest.raises(GramianError, match=message):
        fit_quality(x, y)
