"""Compatible heads: lengths, ranks, slices, and the Procrustes kernel they rest on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments import JointMoments
from gramian.solvers import procrustes, ridge
from gramian.solvers.compatible import backward_map, compatible_head


def pair(n: int = 500, new: int = 12, old: int = 8, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, new, generator=draw, dtype=torch.float64)
    y = x @ torch.randn(new, old, generator=draw, dtype=torch.float64) / new**0.5
    y += 0.5 * torch.randn(n, old, generator=draw, dtype=torch.float64)
    return x, y


@pytest.mark.parametrize("way", ["predicting", "procrustes"])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_lengths_and_cosines_of_new_rows_stay(way: str, shift: float) -> None:
    x, y = (rows + shift for rows in pair())
    head = compatible_head(JointMoments.from_rows(x, y), way=way)
    out = head.forward(x)
    assert head.rotation.tag_defect("orthogonal") < 1e-12
    np.testing.assert_allclose(out @ out.T, x @ x.T, rtol=1e-11, atol=1e-9)
    assert out.shape == (500, head.width)
    np.testing.assert_allclose(head.slice(x), out[:, :8], rtol=1e-12, atol=1e-7)


@pytest.mark.parametrize(("new", "old"), [(12, 8), (8, 8), (5, 8)])
def test_first_block_of_the_completion_is_procrustes(new: int, old: int) -> None:
    x, y = pair(new=new, old=old)
    joint = JointMoments.from_rows(x, y)
    head = compatible_head(joint, way="procrustes")
    want = procrustes(joint, intercept=False)
    np.testing.assert_allclose(head.slice.weight, want.map.to_dense(), atol=1e-12)
    assert head.width == max(new, old)
    np.testing.assert_allclose(head.forward(x).norm(dim=1), x.norm(dim=1), atol=1e-12)


def test_the_slice_is_the_old_space_where_new_holds_it() -> None:
    draw = torch.Generator().manual_seed(1)
    old = torch.randn(300, 6, generator=draw, dtype=torch.float64)
    # noise that goes along with the old rows: only the split by prediction sees through it
    noise = torch.randn(300, 4, generator=draw, dtype=torch.float64) + old[:, :4]
    new = torch.cat([old, noise], 1)
    head = compatible_head(JointMoments.from_rows(new, old), ridge_share=0.0)
    np.testing.assert_allclose(head.slice(new), old, atol=1e-9)
    rest = head.forward(new)[:, 6:]
    np.testing.assert_allclose(rest @ rest.T, noise @ noise.T, atol=1e-8)
    turn = torch.linalg.qr(torch.randn(10, 10, generator=draw, dtype=torch.float64))[0]
    turned = compatible_head(JointMoments.from_rows(new @ turn, old), ridge_share=0.0)
    np.testing.assert_allclose(turned.slice(new @ turn), old, atol=1e-9)
    plain = compatible_head(JointMoments.from_rows(new, old), way="procrustes")
    assert float((plain.slice(new) - old).abs().max()) > 0.1


def test_all_that_predicts_is_in_the_slice() -> None:
    x, y = pair()
    head = compatible_head(JointMoments.from_rows(x, y), ridge_share=0.0)

    def error(rows: Tensor) -> float:
        joint = JointMoments.from_rows(rows, y)
        return ridge(joint, lambdas=[0.0], intercept=False).evidence.errors["train"]

    assert error(head.slice(x)) == pytest.approx(error(x), rel=1e-9)
    assert error(head.forward(x)) == pytest.approx(error(x), rel=1e-9)


@pytest.mark.parametrize("way", ["predicting", "procrustes"])
def test_extra_coordinates_are_the_leading_residual(way: str) -> None:
    x, y = pair()
    joint = JointMoments.from_rows(x, y)
    fit = torch.linalg.lstsq(x, y).solution
    leading = torch.linalg.svd(y - x @ fit, full_matrices=False).Vh
    errors = []
    for k in (0, 3, 8):
        head = compatible_head(joint, way=way, extra=k, ridge_share=0.0)
        assert (head.width, head.extra) == (12 + k, k)
        assert head.rotation.tag_defect("orthogonal") < 1e-12
        np.testing.assert_allclose((head.directions @ leading[:k].T).abs(), np.eye(k), atol=1e-8)
        np.testing.assert_allclose(head.read, head.directions @ fit.T, atol=1e-8)
        both = head.both(x, y)
        told = y @ head.directions.T
        np.testing.assert_allclose(both @ both.T, x @ x.T + told @ told.T, atol=1e-9)
        # what a new row predicts of itself goes the same way as what the old one says
        np.testing.assert_allclose(
            head.forward(x), head.rotation(torch.cat([x @ head.read.T, x], 1)), atol=1e-10
        )
        errors.append(float((both[:, :8] - y).square().sum()))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] == pytest.approx(0.0, abs=1e-15)


def test_padding_changes_no_ranking() -> None:
    x, y = pair()
    head = compatible_head(JointMoments.from_rows(x, y))
    gallery = head.padded(y)
    np.testing.assert_array_equal(gallery[:, :8], y)
    np.testing.assert_allclose(head.forward(x) @ gallery.T, head.slice(x) @ y.T, atol=1e-10)


def test_the_way_for_old_rows_is_least_squares() -> None:
    x, y = pair(600)
    joint, select = (JointMoments.from_rows(x[i], y[i]) for i in (slice(400), slice(400, 600)))
    head = compatible_head(joint)
    back = backward_map(head, joint, select)
    want = ridge(
        *[JointMoments.from_rows(y[i], head.forward(x[i])) for i in (slice(400), slice(400, 600))]
    )
    np.testing.assert_allclose(back.to_dense(), want.map.to_dense(), atol=1e-9)
    error = (back(y) - head.forward(x)).square().sum()
    assert float(error) < float((head.padded(y) - head.forward(x)).square().sum())


def test_awkward_rows() -> None:
    few, there = pair(5)  # fewer rows than dimensions
    few[:, 3] = few[:, 2]
    few[:, 4] = 1.0
    head = compatible_head(JointMoments.from_rows(few, there))
    assert head.rotation.tag_defect("orthogonal") < 1e-12
    assert any("5 rows for 12 dimensions" in note for note in head.evidence.notes)
    narrow, wide = pair(new=5, old=8)
    assert compatible_head(JointMoments.from_rows(narrow, wide)).forward(narrow).shape == (500, 8)


@pytest.mark.parametrize("way", ["predicting", "procrustes"])
@pytest.mark.parametrize("extra", [1, 3, 8])
def test_a_narrow_new_space_keeps_all_of_its_rows(way: str, extra: int) -> None:
    x, y = pair(new=5, old=8)
    head = compatible_head(JointMoments.from_rows(x, y), way=way, extra=extra)
    assert head.width == extra + max(5, 8 - extra)
    weight = head.rotation.to_dense()
    np.testing.assert_allclose(weight.T @ weight, np.eye(extra + 5), atol=1e-12)
    out = head.both(x, y)
    assert np.linalg.matrix_rank(out.numpy()) == 5 + extra
    # in the directions of its own the slice is the old row itself
    told = y @ head.directions.T
    np.testing.assert_allclose(out[:, :8] @ head.directions.T, told, atol=1e-10)
    assert np.linalg.matrix_rank(head.forward.weight.numpy()) == 5


@pytest.mark.parametrize("way", ["predicting", "procrustes"])
def test_the_rest_comes_by_falling_second_moment(way: str) -> None:
    x, y = pair()
    x = x * torch.linspace(0.2, 3, 12, dtype=torch.float64)
    rest = compatible_head(JointMoments.from_rows(x, y), way=way).forward(x)[:, 8:]
    second = (rest.T @ rest).numpy()
    assert (np.diff(np.diag(second)) < 0).all()
    np.testing.assert_allclose(second, np.diag(np.diag(second)), atol=1e-8)
    # the same rows in other batches turn the same way, so that their vectors share an index
    parts = [JointMoments.from_rows(x[i], y[i]) for i in (slice(177), slice(177, None))]
    again = compatible_head(parts[0] + parts[1], way=way).forward(x)[:, 8:]
    np.testing.assert_allclose(again, rest, atol=1e-9)


def test_evidence_is_of_the_slice_on_every_fold() -> None:
    x, y = pair(900)
    report = JointMoments.from_rows(x[600:], y[600:])
    head = compatible_head(JointMoments.from_rows(x[:600], y[:600]), report)
    want = float((head.slice(x[600:]) - y[600:]).square().sum(1).mean())
    assert head.evidence.errors["report"] == pytest.approx(want)
    assert set(head.evidence.errors) == {"train", "report"}


def test_half_precision_and_directions_that_are_not_shared() -> None:
    x, y = pair(5)
    y[:, 0] = 0.0
    head = compatible_head(JointMoments.from_rows(x.bfloat16(), y.half()), way="procrustes")
    assert any("turned arbitrarily" in note for note in head.evidence.notes)
    assert head.rotation.tag_defect("orthogonal") < 1e-12


def test_refusals() -> None:
    x, y = pair()
    joint = JointMoments.from_rows(x, y)
    with pytest.raises(GramianError, match="extra is 9, expected 0 to 8"):
        compatible_head(joint, extra=9)
    with pytest.raises(GramianError, match="full moments"):
        compatible_head(JointMoments.from_rows(x, y, target="diagonal"))
    with pytest.raises(GramianError, match="way is 'best'"):
        compatible_head(joint, way="best")
    with pytest.raises(GramianError, match="ridge_share is -1"):
        compatible_head(joint, ridge_share=-1.0)
    with pytest.raises(GramianError, match="all zero"):
        compatible_head(JointMoments.from_rows(0 * x, y))
    with pytest.raises(GramianError, match="no rows"):
        compatible_head(JointMoments.from_rows(x[:0], y[:0]))
