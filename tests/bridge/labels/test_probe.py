"""Project and Probe on a shifted task with few labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from gramian.bridge.labels import project_and_probe
from gramian.errors import GramianError
from gramian.moments import Moments
from gramian.solvers import Deflated, deflated_discriminant

G = np.random.default_rng(1)
D = 40


def task(n: int, gaps: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    x = G.normal(size=(n, D))
    x[:, :2] += (y[:, None] - 0.5) * gaps
    x[:, 0] *= 0.1  # narrow: with equal spreads one direction would exhaust the means
    return x, y


def source() -> Deflated:
    x, y = task(6000, (6.0, 2.5))
    means = torch.tensor(np.stack([x[y == 0].mean(0), x[y == 1].mean(0)]))
    counts = torch.tensor([3000, 3000])
    return deflated_discriminant(Moments.from_rows(torch.tensor(x)), counts, means, level=None)


def test_beats_a_plain_probe_where_the_first_feature_fails() -> None:
    directions = source()
    new, label = task(4000, (0.0, 2.5))
    ours, plain = [], []
    for _ in range(10):
        x, y = task(16, (0.0, 2.5))
        ours.append(project_and_probe(directions, x, y, components=2).predict(new) == label)
        plain.append(LogisticRegression(max_iter=1000).fit(x, y).predict(new) == label)
    assert np.mean(ours) > np.mean(plain) + 0.05


def test_is_the_classifier_on_the_coordinates() -> None:
    directions = source()
    x, y = task(40, (0.0, 2.5))
    names = np.array(["no", "yes"])[y]
    probe = project_and_probe(directions, x, names)
    assert probe.components in {1, 2, 4, 8, 16, 32, directions.projection.shape[1]}
    z = (x - directions.mean.numpy()) @ directions.projection.numpy()[:, : probe.components]
    np.testing.assert_allclose(probe.coordinates(x), z, atol=1e-12)
    other = LogisticRegression(max_iter=1000).fit(z, names)
    np.testing.assert_allclose(probe.predict_proba(x), other.predict_proba(z), atol=1e-6)
    assert set(probe.predict(x.astype(np.float16))) <= {"no", "yes"}


def test_refusals() -> None:
    directions = source()
    x, y = task(8, (0.0, 2.5))
    one = np.array([0] * 7 + [1])
    for rows, labels, options, match in (
        (x, y[:3], {}, "labels of shape"),
        (x, y * 0, {}, "fewer than two"),
        (x, one, {}, "one target row"),
        (x, y, {"components": 99}, "expected 1 to"),
        (x, y, {"C": 0.0}, "above 0"),
        (x[:, :5], y, {}, "expected 40"),
        (np.where(x > 2, np.nan, x), y, {}, "NaN"),
    ):
        with pytest.raises(GramianError, match=match):
            project_and_probe(directions, rows, labels, **options)
    assert project_and_probe(directions, x, one, components=2).components == 2
