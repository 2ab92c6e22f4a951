"""How much of an old space is left in a new one, against scikit-learn."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from torch import Tensor

from gramian.errors import GramianError
from gramian.measures import readable_by_class, readable_fraction
from gramian.moments import JointMoments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


OLD = normal(300, 5) @ normal(5, 5, seed=1)
NEW = torch.cat([OLD[:, :3], 0.5 * normal(300, 4, seed=2)], 1) @ normal(7, 7, seed=3) + 4


def joint(rows: slice = slice(None), new: Tensor = NEW, old: Tensor = OLD) -> JointMoments:
    return JointMoments.from_rows(new[rows], old[rows], target="diagonal")


def test_an_invertible_change_leaves_everything() -> None:
    change = normal(5, 5, seed=4)
    for new in (OLD @ change + 7, torch.cat([OLD @ change, normal(300, 9, seed=5)], 1)):
        assert readable_fraction(joint(new=new)) == pytest.approx(1.0, abs=1e-10)


def test_equals_a_linear_probe() -> None:
    train, judge = slice(0, 200), slice(200, 300)
    probe = LinearRegression().fit(NEW[train], OLD[train])

    def score(rows: slice) -> float:
        predicted = probe.predict(NEW[rows])
        return float(r2_score(OLD[rows], predicted, multioutput="variance_weighted"))

    assert readable_fraction(joint(train)) == pytest.approx(score(train), rel=1e-9)
    assert readable_fraction(joint(train), report=joint(judge)) == pytest.approx(
        score(judge), rel=1e-9
    )
    assert 0.5 < score(judge) < 0.95
    # of a class: its own rows, the map of all
    parts = {name: slice(200 + 25 * i, 225 + 25 * i) for i, name in enumerate("abcd")}
    found = readable_by_class(joint(train), {name: joint(rows) for name, rows in parts.items()})
    assert found == {name: pytest.approx(score(rows), rel=1e-9) for name, rows in parts.items()}


def test_unseen_noise_is_not_readable() -> None:
    noise = normal(300, 5, seed=6)
    folds = [joint(slice(i, i + 100), old=noise) for i in (0, 100, 200)]
    assert readable_fraction(*folds) < 0.05
    assert readable_fraction(folds[0], folds[1]) < 0.05


def test_few_rows_and_nothing_to_read() -> None:
    with pytest.raises(GramianError, match="8 rows and 7 dimensions"):
        readable_fraction(joint(slice(0, 8)))
    with pytest.raises(GramianError, match="by counting alone"):
        readable_by_class(joint(slice(0, 8)), {})
    assert readable_fraction(joint(slice(0, 8)), report=joint(slice(8, 300))) < 0.9
    assert math.isnan(readable_fraction(joint(old=torch.ones_like(OLD))))
    empty = joint(slice(0, 0))
    assert math.isnan(readable_by_class(joint(), {"none": empty})["none"])
