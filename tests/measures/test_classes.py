"""Class measures against probes, SciPy and NumPy on the rows, and simplices made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import Affine, Dense
from gramian.measures import ClassScatter, fisher_ratio, nc1, nc2, nc3, vci
from gramian.moments import Accumulator, JointMoments, Pair

K = 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LABELS = torch.arange(120) % K
X = normal(120, 6) * torch.arange(1.0, 7.0) + normal(K, 6, seed=1)[LABELS] * 2 + 5
UNEVEN = torch.cat([torch.zeros(70), torch.ones(30), torch.full((20,), 2)]).long()


def scatters(x: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Between and within, by their definition."""
    rows, n = x.double().numpy(), len(x)
    between, within = np.zeros((2, rows.shape[1], rows.shape[1]))
    for k in np.unique(labels.numpy()):
        members = rows[labels.numpy() == k]
        gap = members.mean(0) - rows.mean(0)
        between += len(members) / n * np.outer(gap, gap)
        within += np.cov(members.T, bias=True) * len(members) / n
    return between, within


@pytest.mark.parametrize("labels", [LABELS, UNEVEN], ids=["balanced", "uneven"])
def test_scatters_by_definition_and_over_batches(labels: Tensor) -> None:
    between, within = scatters(X, labels)
    whole = ClassScatter.of(JointMoments.from_labels(X, labels))
    np.testing.assert_allclose(whole.between.numpy(), between, atol=1e-11)
    np.testing.assert_allclose(whole.within.numpy(), within, atol=1e-11)
    onehot = torch.nn.functional.one_hot(labels, K).double()
    sums = Accumulator(
        {"x": 6, "y": K},
        [Pair("x", "y")],
        orders={"x": "full", "y": "diagonal"},
        precision="float64",
    )
    for part in (slice(0, 7), slice(7, 120)):
        sums.update({"x": X[part], "y": onehot[part]})
    added = ClassScatter.of(sums.joint(Pair("x", "y")))
    torch.testing.assert_close(added.between, whole.between, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(added.means, whole.means, atol=1e-11, rtol=1e-11)


def test_vci_of_balanced_classes_is_the_error_of_the_best_probe() -> None:
    onehot = np.eye(K)[LABELS.numpy()]
    design = np.column_stack([X.numpy(), np.ones(120)])
    fitted = design @ np.linalg.lstsq(design, onehot, rcond=None)[0]
    error = ((fitted - onehot) ** 2).sum(1).mean()
    joint = JointMoments.from_labels(X, LABELS)
    assert vci(joint) == pytest.approx(error / (1 - 1 / K), rel=1e-12)


@pytest.mark.parametrize("labels", [LABELS, UNEVEN], ids=["balanced", "uneven"])
def test_by_definition(labels: Tensor) -> None:
    between, within = scatters(X, labels)
    joint = JointMoments.from_labels(X, labels)
    k = len(labels.unique())
    assert vci(joint) == pytest.approx(
        1 - np.trace(np.linalg.pinv(between + within) @ between) / (k - 1), rel=1e-10
    )
    assert nc1(joint) == pytest.approx(
        np.trace(within @ np.linalg.pinv(between, rcond=1e-10)) / k, rel=1e-9
    )
    discriminants = scipy.linalg.eigh(between, within, eigvals_only=True)
    assert fisher_ratio(joint) == pytest.approx(discriminants.sum(), rel=1e-10)
    total = between + within
    ridged = total + 0.1 * np.trace(total) / 6 * np.eye(6)
    assert vci(joint, ridge=0.1) == pytest.approx(
        1 - np.trace(np.linalg.solve(ridged, between)) / (k - 1), rel=1e-10
    )


def test_fisher_ratio_is_what_discriminant_analysis_maximises() -> None:
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X.numpy(), LABELS.numpy())
    scores = torch.tensor(lda.transform(X.numpy()))
    assert fisher_ratio(JointMoments.from_labels(scores, LABELS)) == pytest.approx(
        fisher_ratio(JointMoments.from_labels(X, LABELS)), rel=1e-9
    )


@pytest.mark.parametrize("measure", [vci, fisher_ratio])
def test_invariance_under_any_invertible_map(measure: Callable[[JointMoments], float]) -> None:
    joint = JointMoments.from_labels(X, LABELS)
    mixed = joint.through(Affine(Dense(normal(6, 6, seed=8)), normal(6, seed=9) * 1e3))
    assert measure(mixed) == pytest.approx(measure(joint), rel=1e-9)
    assert nc1(mixed) != pytest.approx(nc1(joint), rel=1e-2)


def test_unbiased_between_scatter_sees_that_random_labels_say_nothing() -> None:
    draws = [
        (vci(joint), vci(joint, unbiased=True))
        for seed in range(200)
        for joint in [JointMoments.from_labels(normal(120, 20, seed=seed), LABELS)]
    ]
    plain, unbiased = np.mean(draws, 0)
    # Each of K - 1 contrasts is fitted with R^2 = d/(n - 1) by chance.
    assert plain == pytest.approx(1 - 20 / 119, abs=0.008)
    assert unbiased == pytest.approx(1.0, abs=0.01)


def test_unbiased_by_definition() -> None:
    between, within = scatters(X, LABELS)
    within = within * 120 / (120 - K)
    between = between - (K - 1) / 120 * within
    total = between + within
    joint = JointMoments.from_labels(X, LABELS)
    for ridge in (0.0, 0.3):
        ridged = total + ridge * np.trace(total) / 6 * np.eye(6)
        expected = 1 - np.trace(np.linalg.solve(ridged, between)) / (K - 1)
        assert vci(joint, ridge=ridge, unbiased=True) == pytest.approx(expected, rel=1e-10)


def simplex(k: int, d: int) -> Tensor:
    """K vectors in d dimensions with equal lengths and angles."""
    frame = torch.linalg.qr(normal(d, k, seed=2))[0]
    return ((torch.eye(k, dtype=torch.float64) - 1 / k) @ frame.T) * 3


def test_collapsed_classes_are_zero_on_every_measure() -> None:
    means = simplex(K, 8)
    collapsed = JointMoments.from_labels(means[LABELS] + 7, LABELS)
    assert vci(collapsed) == pytest.approx(0, abs=1e-10)
    assert nc1(collapsed) == pytest.approx(0, abs=1e-10)
    assert fisher_ratio(collapsed) == math.inf
    shape = nc2(collapsed)
    assert shape.equinorm == pytest.approx(0, abs=1e-10)
    assert shape.distance == pytest.approx(0, abs=1e-10)
    assert nc3(collapsed, 0.5 * means) == pytest.approx(0, abs=1e-10)
    assert nc2(collapsed, means).distance == pytest.approx(0, abs=1e-10)
    assert nc3(collapsed, -means) == pytest.approx(2, abs=1e-10)


@pytest.mark.parametrize("labels", [LABELS, UNEVEN], ids=["balanced", "uneven"])
def test_simplex_distances_by_definition(labels: Tensor) -> None:
    joint = JointMoments.from_labels(X, labels)
    k = len(labels.unique())
    means = torch.stack([X[labels == i].mean(0) for i in range(k)])
    centred = means - means.mean(0)
    weight = normal(k, 6, seed=6)
    ideal = (torch.eye(k, dtype=torch.float64) - 1 / k) / math.sqrt(k - 1)
    for product, found in (
        (centred @ centred.T, nc2(joint).distance),
        (weight @ weight.T, nc2(joint, weight.numpy()).distance),
        (weight @ centred.T, nc3(joint, weight)),
    ):
        assert found == pytest.approx(float((product / product.norm() - ideal).norm()), rel=1e-9)
    lengths = centred.norm(dim=1).numpy()
    assert nc2(joint).equinorm == pytest.approx(lengths.std() / lengths.mean(), rel=1e-10)


def test_awkward_columns_change_nothing() -> None:
    wide = torch.cat([X, X[:, :2], torch.full((120, 2), 3.0)], 1)
    joint, awkward = (JointMoments.from_labels(rows, LABELS) for rows in (X, wide))
    assert vci(awkward) == pytest.approx(vci(joint), rel=1e-9)
    assert fisher_ratio(awkward) == pytest.approx(fisher_ratio(joint), rel=1e-9)
    far = JointMoments.from_labels((X - 5) + 1e4 * torch.arange(1.0, 7.0), LABELS)
    assert vci(far) == pytest.approx(vci(joint), rel=1e-8)
    half = X.bfloat16()
    assert vci(JointMoments.from_labels(half, LABELS)) == pytest.approx(vci(joint), rel=0.01)


def test_a_class_without_rows_is_left_out() -> None:
    joint = JointMoments.from_labels(X, UNEVEN, classes=6)
    assert ClassScatter.of(joint).classes == 3
    assert vci(joint) == pytest.approx(vci(JointMoments.from_labels(X, UNEVEN)), rel=1e-12)


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda: vci(JointMoments.from_rows(X, X)), "not a one-hot label"),
        (lambda: vci(JointMoments.from_rows(X, torch.full((120, 2), 0.5))), "not a one-hot label"),
        (lambda: nc1(JointMoments.from_labels(X, torch.zeros(120).long())), "at least 2"),
        (
            lambda: vci(JointMoments.from_rows(X, torch.eye(2).repeat(60, 1), source="diagonal")),
            "full moments of x",
        ),
        (lambda: vci(JointMoments.from_labels(normal(12, 30), LABELS[:12])), "ridge > 0"),
        (lambda: fisher_ratio(JointMoments.from_labels(normal(12, 30), LABELS[:12])), "perfectly"),
        (lambda: vci(JointMoments.from_labels(X, LABELS), ridge=-1), "ridge"),
        (lambda: nc3(JointMoments.from_labels(X, LABELS), torch.ones(3, 6)), r"\(4, 6\)"),
        (lambda: nc3(JointMoments.from_labels(X, LABELS), torch.zeros(4, 6)), "all zero"),
        (
            lambda: vci(
                JointMoments.from_labels(X.repeat_interleave(2, 0) + 1e3, torch.arange(240) % 2)
            ),
            "same mean",
        ),
        (lambda: vci(JointMoments.from_labels(torch.full((3, 2), torch.nan), LABELS[:3])), "NaN"),
    ],
)
def test_refusals(call: Callable[[], object], message: str) -> None:
    with pytest.raises(GramianError, match=message):
        call()


def test_few_rows_with_a_ridge_are_a_number() -> None:
    joint = JointMoments.from_labels(normal(12, 30), LABELS[:12])
    assert 0 < vci(joint, ridge=0.5) < 1
    assert vci(joint, ridge=0.5, unbiased=True) > 0
