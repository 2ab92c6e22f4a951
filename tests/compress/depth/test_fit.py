"""The map of a cut against the rows themselves, and against a known answer."""

from __future__ import annotations

import pytest
import torch

from gramian.compress.depth import Cut, fit
from gramian.compress.depth.directed import CutRows, fit_cosine, fit_weighted
from gramian.compress.depth.fit import objective
from gramian.errors import GramianError
from tests.compress.depth.conftest import moments_of, opened
from tests.compress.depth.rows import rows_at

CUT = Cut(2, 2)
SITES = ("1.mlp_out", "2.resid_pre", "4.resid_pre")
EVERY = ("train", "select", "report")


def parts(rows):
    branch, before, after = (rows[site] for site in SITES)
    return branch, before, after


def test_nothing_removed_is_the_identity(checkpoint, moments):
    found = fit(checkpoint, moments, Cut(2, 0))
    eye = torch.eye(32, dtype=torch.float64)
    torch.testing.assert_close(found.map.to_dense(), eye, rtol=0, atol=1e-8)
    assert found.error_report == 0.0


def test_is_least_squares_with_sinks(checkpoint, moments):
    """(M^T M)^-1 M^T Z on all rows of train and select, sink rows among them."""
    found = fit(checkpoint, moments, CUT, strengths=(0.0,))
    branch, before, after = parts(rows_at(checkpoint, moments, SITES, ("train", "select")))
    expected = torch.linalg.lstsq(branch, after - before + branch).solution.T
    torch.testing.assert_close(found.map.to_dense(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("sinks", [False, True])
def test_predicted_error_is_the_measured_one(checkpoint, moments, sinks):
    found = fit(checkpoint, moments, CUT)
    folds = EVERY if sinks else ("report",)
    branch, before, after = parts(rows_at(checkpoint, moments, SITES, folds, sinks=sinks))
    # What the network gives with the map in place, and what it should give.
    made = before - branch + found.map(branch)
    measured = (made - after).square().sum() / (after - before).square().sum()
    predicted = found.error_sinks if sinks else found.error_report
    assert predicted == pytest.approx(float(measured), rel=1e-6)


@pytest.mark.parametrize("start,count", [(1, 1), (2, 3), (4, 2)])
def test_never_worse_than_dropping_on_its_rows(checkpoint, moments, start, count):
    fitted = objective(checkpoint, moments, Cut(start, count), ("train", "select"), sinks=True)
    found = fit(checkpoint, moments, Cut(start, count), strengths=(0.0,))
    weight = found.map.to_dense() - torch.eye(32, dtype=torch.float64)
    assert fitted.value(weight) <= fitted.value(torch.zeros_like(weight)) == fitted.c


def test_the_ridge_goes_to_the_identity(checkpoint, moments):
    eye = torch.eye(32, dtype=torch.float64)
    gaps = [
        float((fit(checkpoint, moments, CUT, strengths=(s,)).map.to_dense() - eye).norm())
        for s in (0.0, 0.1, 10.0, 1e8)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-4


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Blocks 2 and 3 together add S m, with m the MLP output of block 1."""
    checkpoint = opened(tmp_path_factory.mktemp("planted"))
    step = torch.randn(32, 32, generator=torch.Generator().manual_seed(4)) / 4
    kept = {}
    layers = checkpoint.model.model.layers
    layers[1].mlp.register_forward_hook(lambda module, args, output: kept.update(m=output))

    def add(module, args, kwargs, output):
        stream = args[0] if args else kwargs["hidden_states"]
        return stream + kept["m"] @ step.T / 2

    for layer in layers[2:4]:
        layer.register_forward_hook(add, with_kwargs=True)
    return checkpoint, moments_of(checkpoint, reservoir=4000), step.double()


def test_a_planted_linear_block_is_found(planted):
    checkpoint, moments, step = planted
    found = fit(checkpoint, moments, CUT, strengths=(0.0,))
    expected = torch.eye(32, dtype=torch.float64) + step
    torch.testing.assert_close(found.map.to_dense(), expected, rtol=0, atol=1e-4)
    assert found.error_report < 1e-8
    assert fit(checkpoint, moments, CUT).relative == 0.0


def test_weighted_and_cosine_find_it_too(planted):
    checkpoint, moments, step = planted
    expected = torch.eye(32, dtype=torch.float64) + step
    weighted = fit_weighted(checkpoint, moments, CUT, strengths=(0.0,))
    torch.testing.assert_close(weighted.map.to_dense(), expected, rtol=0, atol=1e-4)
    directed = fit_cosine(checkpoint, moments, CUT)
    assert directed.error_report < 0.5


def test_weighted_is_least_squares_of_scaled_rows(checkpoint, moments):
    found = fit_weighted(checkpoint, moments, CUT, strengths=(0.0,))
    left = torch.zeros(32, 32, dtype=torch.float64)
    right = torch.zeros(32, 32, dtype=torch.float64)
    for fold in ("train", "select"):
        branch, before, after = parts(rows_at(checkpoint, moments, SITES, (fold,), sinks=False))
        weight = 1 / after.square().sum(1, keepdim=True)
        left += branch.T @ (weight * branch)
        right += branch.T @ (weight * (after - before))
        branch, before, after = parts(rows_at(checkpoint, moments, SITES, (fold,), sinks=True))
        share = len(after) / after.square().sum()
        left += share * branch.T @ branch
        right += share * branch.T @ (after - before)
    expected = torch.linalg.solve(left, right).T + torch.eye(32, dtype=torch.float64)
    torch.testing.assert_close(found.map.to_dense(), expected, rtol=1e-4, atol=1e-5)


def test_the_cosine_objective_turns_the_stream(checkpoint, moments):
    """On rows that no fit has seen, a greater mean cosine than without a map."""
    found = fit_cosine(checkpoint, moments, CUT)
    rows = CutRows.of(checkpoint, moments, CUT, "report").directions()
    step = found.map.to_dense() - torch.eye(32, dtype=torch.float64)
    assert float(rows.loss(step)) < float(rows.loss(torch.zeros_like(step)))


def test_raw_rows_are_asked_for(checkpoint):
    bare = moments_of(checkpoint, max_remove=1)
    with pytest.raises(GramianError, match=r"no raw rows of '1\.mlp_out'"):
        fit_weighted(checkpoint, bare, Cut(2, 1))
