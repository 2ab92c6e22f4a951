"""A comparison is the measure of every pair, with errors, refusals and warnings."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from gramian.compare import MEASURES, compare
from gramian.errors import GramianError
from gramian.measures import (
    bures_distance,
    cca,
    cka,
    frechet_distance,
    jackknife,
    procrustes_distance,
    pwcca,
    regression_r2,
    shape_distance,
    spectral_distance,
    standardised,
    svcca,
)
from gramian.moments import FOLDS, JointMoments, Moments, Partner, RowRule
from tests.compare.sets import RECIPE, by_fold, set_of


def rows_of(seed: int = 0, n: int = 400) -> dict[str, torch.Tensor]:
    """Three related sites of two widths, with means, and one of noise."""
    generator = torch.Generator().manual_seed(seed)

    def noise(d: int) -> torch.Tensor:
        return torch.randn(n, d, generator=generator, dtype=torch.float64)

    x = noise(6) * torch.tensor([5.0, 3, 2, 1, 1, 0.5]) + 4.0
    return {
        "0.resid_pre": x,
        "1.resid_pre": x + 0.8 * noise(6),
        "1.z": (x @ noise(6)[:6, :4]).tanh() + 0.1 * noise(4),
        "final": noise(6),
    }


ROWS = rows_of()
SINKS = {site: 50.0 + 30 * x[:3] for site, x in ROWS.items()}
SITES = tuple(ROWS)


@pytest.fixture(scope="module")
def moments():
    return set_of(ROWS, sinks=SINKS)


def joint(x, y, rows=ROWS, sinks=None):
    extra = [] if sinks is None else [sinks]
    parts = [torch.cat([part[site] for part in (rows, *extra)]) for site in (x, y)]
    return JointMoments.from_rows(*parts)


DIRECT = {
    "cka": cka,
    "cka_plain": lambda j: cka(j, debiased=False),
    "cka_standardised": lambda j: cka(standardised(j), debiased=False),
    "cca": lambda j: cca(j).mean,
    "cca_r2": lambda j: cca(j).r2,
    "svcca": lambda j: svcca(j).mean,
    "pwcca": pwcca,
    "regression_r2": regression_r2,
    "procrustes": procrustes_distance,
    "angular": lambda j: shape_distance(j, kind="angular"),
    "spectral": lambda j: spectral_distance(j.x, j.y),
}


@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("name", DIRECT)
def test_every_entry_is_the_measure_of_the_rows(moments, name, sinks):
    found = compare(moments, measures=[name], sinks=sinks)
    matrix = found.matrix(name, sinks=sinks)
    assert matrix.x == matrix.y == SITES
    for x in SITES:
        for y in SITES:
            expected = DIRECT[name](joint(x, y, sinks=SINKS if sinks else None))
            # a distance is the root of a difference: 1e-8 of the scale of the rows is rounding
            tolerance = 1e-5 if name == "procrustes" else 2e-7
            assert matrix[x, y] == pytest.approx(expected, rel=1e-9, abs=tolerance)


def test_every_measure_is_held_to_its_own_function():
    assert set(DIRECT) | {"bures", "frechet"} == set(MEASURES)


@pytest.mark.parametrize("name", ["cka", "cka_standardised", "regression_r2"])
def test_errors_are_those_of_the_jackknife_over_folds(moments, name):
    matrix = compare(moments, measures=[name], errors=True).matrix(name)
    for x, y in [("0.resid_pre", "1.z"), ("1.z", "0.resid_pre")]:
        folds = [
            JointMoments.from_rows(by_fold(ROWS[x])[fold], by_fold(ROWS[y])[fold]) for fold in FOLDS
        ]
        expected = jackknife(DIRECT[name], folds)[1]
        error = float(matrix.errors[SITES.index(x), SITES.index(y)])
        assert error == pytest.approx(expected, rel=1e-8)
        assert error > 0


def test_errors_of_costly_measures_are_given_when_asked_for(moments):
    assert compare(moments, measures=["svcca"]).matrices[0].errors is None
    assert compare(moments, measures=["cka"]).matrices[0].errors is not None
    assert compare(moments, measures=["cka"], errors=False).matrices[0].errors is None


def test_asymmetric_measures_are_not_mirrored(moments):
    matrix = compare(moments, measures=["regression_r2"]).matrix("regression_r2")
    assert matrix["0.resid_pre", "1.z"] != matrix["1.z", "0.resid_pre"]


def test_a_stored_pair_serves_both_orders():
    x, y = "1.z", "0.resid_pre"
    backwards = set_of(ROWS, [(b, a) for i, a in enumerate(SITES) for b in SITES[i + 1 :]])
    forwards = set_of(ROWS)
    for one in (forwards, backwards):
        matrix = compare(one, measures=["cka"], sites=([x], [y])).matrix("cka")
        assert matrix[x, y] == pytest.approx(cka(joint(x, y)), rel=1e-10)


def test_a_rotated_copy_is_the_same_site():
    """CKA is 1 up to the rounding of the sums, also in half the numbers on disk."""
    x = ROWS["0.resid_pre"]
    q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator()))[0]
    rotated = {"0.resid_pre": x, "1.resid_pre": 3.0 * x @ q + 7.0}
    found = compare(set_of(rotated), measures=["cka", "cka_plain", "angular"])
    for name, expected, tolerance in (
        ("cka", 1, 1e-12),
        ("cka_plain", 1, 1e-12),
        ("angular", 0, 1e-6),
    ):
        assert found.matrix(name)["0.resid_pre", "1.resid_pre"] == pytest.approx(
            expected, abs=tolerance
        )


def test_half_the_numbers_on_disk(tmp_path):
    stored = set_of(ROWS, path=tmp_path / "x.moments", storage="float32")
    for name in ("cka", "cka_standardised", "procrustes"):
        a = compare(stored, measures=[name]).matrix(name).values
        b = compare(set_of(ROWS), measures=[name]).matrix(name).values
        assert float((a - b).abs().max()) < 1e-5


def test_a_site_that_does_not_vary_has_no_value_and_a_warning():
    rows = {**ROWS, "2.resid_pre": torch.full((400, 6), 3.0)}
    found = compare(set_of(rows), measures=["cka", "cka_standardised", "svcca"])
    for matrix in found.matrices:
        assert math.isnan(matrix["2.resid_pre", "0.resid_pre"])
        assert not math.isnan(matrix["0.resid_pre", "1.resid_pre"])
    assert any("does not vary" in warning for warning in found.warnings)
    document = json.dumps(found.to_json(), allow_nan=False)
    shown = json.loads(document)["matrices"][0]
    assert shown["values"][0][shown["x"].index("2.resid_pre")] is None


@pytest.mark.parametrize("name", ["cca", "cca_r2", "pwcca", "regression_r2"])
def test_too_few_rows_are_refused_and_never_one(name):
    few = {site: x[:5] for site, x in ROWS.items()}
    with pytest.raises(GramianError, match=rf"{name} of .* rows"):
        compare(set_of(few), measures=[name])
    assert 0 < compare(set_of(few), measures=["cka_plain"]).matrix("cka_plain").values.min() <= 1


def test_a_fold_that_leaves_too_few_rows_has_no_error_but_a_value():
    few = {site: x[:14] for site, x in ROWS.items()}  # without train 7 are left, 12 dimensions
    matrix = compare(set_of(few), measures=["cca"], errors=True).matrix("cca")
    assert 0 < matrix["0.resid_pre", "1.resid_pre"] <= 1
    assert math.isnan(float(matrix.errors[0, 1]))


def test_canonical_correlations_of_few_rows_come_with_a_warning():
    few = {site: x[:50] for site, x in ROWS.items()}
    found = compare(set_of(few), measures=["cca"])
    assert any("by chance alone" in warning for warning in found.warnings)
    assert not any("chance" in w for w in compare(set_of(ROWS), measures=["cca"]).warnings)


def test_best_leaves_out_the_site_itself_and_turns_for_distances(moments):
    found = compare(moments, measures=["cka", "angular"])
    for matrix in found.matrices:
        best = {b.site: b.match for b in matrix.best()}
        assert best["0.resid_pre"] == "1.resid_pre"
        assert best["1.resid_pre"] == "0.resid_pre"


def test_a_loud_channel_is_pointed_out():
    loud = {site: x * torch.tensor([100.0] + [1] * (x.shape[1] - 1)) for site, x in ROWS.items()}
    found = compare(set_of(loud), measures=["cka"])
    assert any("one channel owns more than half" in warning for warning in found.warnings)
    assert not any(
        "one channel" in w for w in compare(set_of(rows_of(1)), measures=["cca"]).warnings
    )


JOINT = replace(
    RECIPE,
    partner=Partner(
        model="other",
        weights="ef" * 32,
        tensors={},
        tokenizer="cd" * 32,
        template="none",
        bos=False,
        rows=RowRule(),
        align="characters",
    ),
)


def test_two_networks_are_rows_against_columns():
    rows = {f"{side}:{site}": x for side in "ab" for site, x in rows_of(ord(side)).items()}
    between = [(x, y) for x in rows for y in rows if x < y and x[0] != y[0]]
    found = compare(set_of(rows, between, recipe=JOINT), measures=["cka", "pwcca"])
    matrix = found.matrix("pwcca")
    assert matrix.x == tuple(f"a:{site}" for site in SITES)
    assert matrix.y == tuple(f"b:{site}" for site in SITES)
    assert matrix["a:final", "b:final"] == pytest.approx(pwcca(joint("a:final", "b:final", rows)))
    assert (found.models, found.align, found.inside) == (("small", "other"), "characters", False)
    with pytest.raises(GramianError, match=r"nothing to compare; collect with .* --inside"):
        compare(set_of(rows, between, recipe=JOINT), inside="a")
    inner = compare(set_of(rows, recipe=JOINT), inside="b", measures=["cka"])
    assert inner.models == ("other", "other")
    assert inner.align is None
    assert inner.inside
    assert inner.matrices[0].x == inner.matrices[0].y == matrix.y


def test_two_sets_give_only_what_needs_no_pairs():
    other = rows_of(5, n=300)
    a, b = set_of(ROWS), set_of(other, recipe=replace(RECIPE, model="other"), seed=9)
    same_width = [site for site in SITES if site != "1.z"]
    found = compare(a, b, sites=(same_width, same_width))
    assert not found.paired
    assert {m.measure for m in found.matrices} == {"spectral", "bures"}
    for x in same_width:
        for y in same_width:
            p, q = Moments.from_rows(ROWS[x]), Moments.from_rows(other[y])
            assert found.matrix("spectral")[x, y] == pytest.approx(spectral_distance(p, q))
            assert found.matrix("bures")[x, y] == pytest.approx(bures_distance(p, q))
    assert "collected apart" in " ".join(found.warnings)
    assert "different documents: 60 and 60, 0 of them in both" in " ".join(found.warnings)
    frechet = compare(a, b, sites=(["final"], ["final"]), measures=["frechet"])
    p, q = Moments.from_rows(ROWS["final"]), Moments.from_rows(other["final"])
    assert frechet.matrices[0]["final", "final"] == pytest.approx(frechet_distance(p, q))

    every = compare(a, b)
    assert [m.measure for m in every.matrices] == ["spectral"]  # widths differ
    with pytest.raises(GramianError, match=r"bures of .*widths"):
        compare(a, b, measures=["bures"])
    for name in ("cka", "cca", "procrustes"):
        with pytest.raises(GramianError, match=r"made apart.*one joint pass"):
            compare(a, b, measures=[name])


def test_the_same_documents_are_not_called_different():
    a, b = set_of(ROWS), set_of(rows_of(5), recipe=replace(RECIPE, model="other"))
    assert not any("different documents" in warning for warning in compare(a, b).warnings)


def test_few_documents_and_one_fold_are_pointed_out(moments):
    few = compare(set_of(ROWS, documents=3))
    assert any("only 9 documents" in warning for warning in few.warnings)
    assert any("3 folds of documents and are rough" in warning for warning in few.warnings)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"measures": ["ckaa"]}, "unknown measure 'ckaa'; expected some of cka"),
        ({"sites": ["0.resid_pre", "7.resid_pre"]}, "no site '7.resid_pre' is kept in full"),
        ({"sites": ([], ["final"])}, "no site to compare"),
        ({"inside": "a"}, "these moments are of one network"),
        ({"inside": "c"}, "expected 'a' or 'b'"),
    ],
)
def test_refusals(moments, arguments, message):
    with pytest.raises(GramianError, match=message):
        compare(moments, **arguments)


def test_pairs_that_were_not_collected(moments):
    some = set_of(ROWS, [("0.resid_pre", "1.resid_pre")])
    assert compare(some).matrices[0].x == ("0.resid_pre", "1.resid_pre")
    with pytest.raises(GramianError, match=r"the pair of 0\.resid_pre and final was not collected"):
        compare(some, sites=["0.resid_pre", "final"])
    with pytest.raises(GramianError, match="nothing to compare; collect with --for compare"):
        compare(set_of(ROWS, []))


def test_progress_counts_every_pair(moments):
    seen = []
    compare(moments, sinks=True, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (2 * 16, 2 * 16)
    assert [done for done, _ in seen] == list(range(1, 33))
