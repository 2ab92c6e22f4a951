"""An inspection against the measures on the rows that the network really made."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor

import gramian as gm
from gramian import inspect
from gramian.data import documents
from gramian.errors import GramianError
from gramian.measures import eee, effective_rank, participation_ratio, spread, utilised_rank
from gramian.moments import FOLDS, Moments
from gramian.networks import Need, Needs, collect, linears
from gramian.networks import open as open_checkpoint
from tests import tiny
from tests.inspect.conftest import SETTINGS


@pytest.fixture(scope="module")
def found(moments, opened) -> inspect.Inspection:
    return inspect.inspect(moments, opened)


def test_needs(opened) -> None:
    residual = inspect.needs(opened)
    orders = residual.orders(opened.blueprint)
    assert list(orders) == sorted(opened.blueprint.residual_sites())
    assert set(orders.values()) == {"full"}
    assert residual.pairs(opened.blueprint) == ()
    assert inspect.needs(opened, inputs=True) == residual + linears(opened)


def test_every_site_is_the_panel_of_its_rows_without_sinks(found, moments) -> None:
    assert [site.site for site in found.sites] == list(moments.sites)
    for site in found.sites:
        rows = moments.moments(site.site, fold=FOLDS)
        assert site.spread is not None
        expected = spread(rows)
        for name in inspect.SPREAD:
            assert getattr(site.spread, name) == pytest.approx(
                getattr(expected, name), rel=1e-7, nan_ok=True
            ), name
        assert site.spread.eee == pytest.approx(eee(rows), rel=1e-9)
        assert site.rows == rows.count
        assert site.rows_per_dimension == rows.count / rows.d
    assert found["1.mlp_mid"].kind == "mlp_mid"
    assert found["final"].kind == "final"
    with pytest.raises(GramianError, match="no site"):
        found["9.resid_pre"]


def test_sinks_by_their_rows(found, moments) -> None:
    for name in ("0.resid_pre", "2.z"):
        rows, every = (moments.moments(name, fold=FOLDS, sinks=s) for s in (False, True))
        sinks = found[name].sinks
        own = float(every.raw().trace() - rows.raw().trace())
        assert sinks.count == every.count - rows.count > 0
        assert sinks.share == pytest.approx(own / float(every.raw().trace()), rel=1e-9)
        length = math.sqrt(own / sinks.count)
        assert sinks.times == pytest.approx(
            length / math.sqrt(float(rows.raw().trace()) / rows.count), rel=1e-9
        )


def weight(opened, name: str) -> Tensor:
    return opened.model.get_parameter(name)


def test_utilised_ranks_of_every_linear_layer(found, moments, opened) -> None:
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert {(item.layer, item.name) for item in found.linears} == {
        (layer, name) for layer in range(3) for name in names
    }
    inputs = {"o_proj": "z", "down_proj": "mlp_mid", "gate_proj": "mlp_in", "up_proj": "mlp_in"}
    for item in found.linears:
        assert item.site == f"{item.layer}.{inputs.get(item.name, 'attn_in')}"
        rows = moments.moments(item.site, fold=FOLDS)
        expected = utilised_rank(rows, weight(opened, item.weight), energy=0.99)
        assert (item.input_rank, item.output_rank) == (expected.input, expected.output)
        assert (item.outputs, item.inputs) == tuple(weight(opened, item.weight).shape)
        assert item.utilisation == expected.utilisation
        assert 1 <= item.input_rank_with_sinks <= item.inputs
    mean = sum(item.utilisation for item in found.linears) / 21
    assert found.mean_utilisation == pytest.approx(mean, rel=1e-12)
    assert found.notes == ()


def test_unit_rows_come_from_the_kept_rows(found, moments, opened, docs) -> None:
    item = next(i for i in found.linears if i.name == "q_proj")
    rows = torch.cat([moments.reservoir(item.site, fold)[1] for fold in FOLDS]).double()
    assert len(rows) > item.inputs
    units = rows / rows.norm(dim=1, keepdim=True)
    covariance = torch.linalg.eigvalsh(torch.cov(units.T)).flip(0)
    share = covariance.cumsum(0) / covariance.sum()
    assert item.input_rank_unit_rows == int((share < 0.99).sum()) + 1
    none = collect(opened, docs, linears(opened), **SETTINGS)
    assert all(
        i.input_rank_unit_rows is None for i in inspect.inspect(none, opened, sites="0.*").linears
    )


def test_energy_and_patterns(moments, opened, found) -> None:
    less = inspect.inspect(moments, opened, sites=("0.attn_in", "*.resid_pre"), energy=0.5)
    assert {site.kind for site in less.sites} == {"attn_in", "resid_pre"}
    assert len(less.sites) == 4
    assert {item.name for item in less.linears} == {"q_proj", "k_proj", "v_proj"}
    more = {item.weight: item for item in found.linears}
    assert all(item.input_rank < more[item.weight].input_rank for item in less.linears)
    assert inspect.inspect(moments).linears == ()
    assert inspect.inspect(moments).mean_utilisation is None


def test_json_is_valid_and_has_the_documented_keys(found) -> None:
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert set(document) == {
        "model", "folds", "energy", "threshold", "sites", "linears", "mean_utilisation", "notes",
    }  # fmt: skip
    assert set(document["sites"][0]) == {
        "site", "kind", "rows", "width", "rows_per_dimension", *inspect.SPREAD, "outliers",
        "outlier_share", "silent_channels", "sinks", "sink_share", "sink_times", "cautions",
    }  # fmt: skip
    assert set(document["linears"][0]) == {
        "weight", "layer", "name", "site", "inputs", "outputs", "rows", "input_rank",
        "output_rank", "input_rank_with_sinks", "input_rank_unit_rows", "rank", "utilisation",
    }  # fmt: skip


def test_a_long_token_is_a_caution_and_hides_nothing(tmp_path) -> None:
    """One word whose embedding is a thousand times longer: its rows are sinks at every layer."""
    model = tiny.model("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[10] *= 1000
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save_pretrained(tmp_path)
    checkpoint = open_checkpoint(tmp_path)
    docs = documents(tiny.texts(150))
    moments = collect(checkpoint, docs, inspect.needs(checkpoint, inputs=True), **SETTINGS)
    site = inspect.inspect(moments)["1.resid_pre"]
    assert site.sinks.share > 0.9
    assert site.sinks.times > 10
    assert [c.kind for c in site.cautions if c.kind == "sinks"] == ["sinks"]
    assert site.spread is not None
    assert site.spread.effective_rank > 10
    raw = moments.moments("1.resid_pre", fold=FOLDS, sinks=True)
    assert effective_rank(raw) < site.spread.effective_rank


def test_diagonal_sites_say_what_is_missing(opened, docs) -> None:
    needs = Needs.of([Need("final", order="diagonal"), Need("0.z", order="diagonal")])
    found = inspect.inspect(collect(opened, docs, needs, **SETTINGS), opened)
    for site in found.sites:
        assert site.spread is None
        assert site.cautions[0].kind == "diagonal"
        assert "--for" in site.cautions[0].message
        record = site.record()
        assert record["effective_rank"] is None
        assert 0 < record["mean_share"] < 1
        assert record["sinks"] > 0
    assert found.linears == ()
    assert any("inputs of 20 linear layers were not collected" in note for note in found.notes)
    assert any("diagonal" in note and "1 linear layer;" in note for note in found.notes)


@pytest.mark.parametrize(
    "family", ["llama", "qwen3", "qwen3_moe", "gpt2", "gpt_neox", "gemma3_text", "mixtral"]
)
def test_every_family_has_its_linear_layers(family: str, tmp_path) -> None:
    checkpoint = open_checkpoint(tiny.save(tmp_path, family))
    checkpoint.__dict__["tokenizer"] = tiny.tokenizer()
    moments = collect(
        checkpoint, documents(tiny.texts(60)), linears(checkpoint), **{**SETTINGS, "tokens": 600}
    )
    found = inspect.inspect(moments, checkpoint, energy=0.9)
    sites = {item.site.rpartition(".")[2] for item in found.linears}
    assert sites - {"mlp_mid"} == {"attn_in", "z", "mlp_in"}
    mixed = any("expert" in note for note in found.notes)
    assert mixed == (family in ("qwen3_moe", "mixtral"))
    assert mixed or "mlp_mid" in sites
    assert not any("not collected" in note for note in found.notes)
    for item in found.linears:
        assert 1 <= item.rank <= min(item.inputs, item.outputs)
        rows = moments.moments(item.site, fold=FOLDS)
        stored = checkpoint.model.get_parameter(item.weight)
        matrix = stored.T if family == "gpt2" else stored
        assert item.output_rank == utilised_rank(rows, matrix, energy=0.9).output


def test_few_rows_are_said_to_be_few() -> None:
    rows = Moments.from_rows(torch.randn(5, 8, generator=torch.Generator().manual_seed(0)))
    panel = spread(rows)
    assert "at most 4 eigenvalues" in panel.notes[0]
    assert participation_ratio(rows) <= 4


def test_refusals(moments, opened, tmp_path) -> None:
    other = open_checkpoint(tiny.save(tmp_path, seed=7))
    with pytest.raises(GramianError, match=r"not of .*collect them on this"):
        inspect.inspect(moments, other)
    for arguments, message in (
        ({"energy": 0}, "energy"),
        ({"energy": 1.5}, "energy"),
        ({"threshold": 0.5}, "threshold"),
        ({"sites": "7.*"}, "no site matches '7.\\*'"),
    ):
        with pytest.raises(GramianError, match=message):
            inspect.inspect(moments, opened, **arguments)


def test_room_is_found_from_the_top() -> None:
    assert gm.inspect is inspect
