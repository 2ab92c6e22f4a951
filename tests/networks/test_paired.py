"""Two networks in one pass: the joint moments are those of rows that belong together."""

from __future__ import annotations

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from gramian.data import AlignedPacking, documents
from gramian.errors import GramianError
from gramian.moments import FOLDS, JointMoments, Moments, MomentSet, Pair, RowRule, add_moments
from gramian.networks import capture
from gramian.networks import open as open_checkpoint
from gramian.networks.collect import packing_of, settings_of
from gramian.networks.paired import collect_pair
from gramian.networks.paired_needs import PairedNeeds
from gramian.networks.rows import sink_rows
from tests import tiny

SETTINGS = {"tokens": 1500, "length": 32, "batch_rows": 128, "precision": "float64"}
SITES = (["1.resid_pre", "final"], ["0.resid_pre", "2.mlp_out"])


def letters() -> PreTrainedTokenizerFast:
    """One token per letter: another tokenizer over the same text."""
    vocabulary = {letter: i for i, letter in enumerate("~^?w0123456789 ")}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?", pad_token="~")


@pytest.fixture(scope="module")
def docs():
    return documents(tiny.texts(150))


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """A Llama on words, a wider GPT-2 on words, and one on letters."""
    llama = tiny.save(tmp_path_factory.mktemp("llama"))
    folder = tmp_path_factory.mktemp("mistral")
    tiny.model("mistral", seed=3, hidden_size=40).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    other = tmp_path_factory.mktemp("letters")
    tiny.model("mistral", seed=5, hidden_size=40).save_pretrained(other)
    letters().save_pretrained(other)
    return tuple(open_checkpoint(path) for path in (llama, folder, other))


@pytest.fixture(scope="module")
def same(networks, docs):
    return collect_pair(networks[0], networks[1], docs, sites=SITES, inside=True, **SETTINGS)


@pytest.fixture(scope="module")
def aligned(networks, docs):
    return collect_pair(networks[0], networks[2], docs, sites=SITES, **SETTINGS)


def seen(checkpoint, sites, batch, rule):
    """Rows by site and sinks, flat, straight from the network."""
    captured = capture(
        checkpoint.model, checkpoint.blueprint, sites, batch.ids, batch.mask, norms=True
    )
    sinks = sink_rows(batch.mask, captured.norms, rule, checkpoint.blueprint)
    rows = {site: x.reshape(-1, x.shape[-1]).double() for site, x in captured.rows.items()}
    return rows, sinks.reshape(-1)


def paired_rows(a, b, found, docs):
    """fold -> (kept, sinks), each site -> rows, for aligned windows."""
    packing = packing_of(a, docs, settings_of(SETTINGS))
    result = {fold: ({}, {}) for fold in FOLDS}
    if found.recipe.partner.align == "tokens":
        batches = ((x, x, *[x.mask.reshape(-1).nonzero()[:, 0]] * 2) for x in packing.batches())
    else:
        every = AlignedPacking(packing, b.tokenizer).batches()
        batches = ((x.a, x.b, x.left, x.right) for x in every)
    for left, right, i, j in batches:
        one, sinks_a = seen(a, SITES[0], left, found.recipe.rows)
        two, sinks_b = seen(b, SITES[1], right, found.recipe.partner.rows)
        apart = sinks_a[i] | sinks_b[j]
        for prefix, rows, index in (("a:", one, i), ("b:", two, j)):
            for site, x in rows.items():
                for part, chosen in zip(result[left.fold], (~apart, apart), strict=True):
                    part.setdefault(prefix + site, []).append(x[index[chosen]])
    return {
        fold: tuple({site: torch.cat(x) for site, x in part.items()} for part in parts)
        for fold, parts in result.items()
    }


def close(a, b, tolerance=1e-9):
    scale = b.abs().max().clamp_min(1e-30)
    return float((a - b).abs().max() / scale) < tolerance


@pytest.mark.parametrize("which", [1, 2])
def test_joint_moments_are_those_of_the_paired_rows(networks, docs, same, aligned, which):
    found = same if which == 1 else aligned
    expected = paired_rows(networks[0], networks[which], found, docs)
    for fold in FOLDS:
        kept, sinks = expected[fold]
        assert found.counts[fold]["rows"] == len(kept["a:final"]) > 20
        assert found.counts[fold]["sinks"] == len(sinks["a:final"])
        for x in ("a:1.resid_pre", "a:final"):
            for y in ("b:0.resid_pre", "b:2.mlp_out"):
                joint, plain = found.joint(x, y, fold), JointMoments.from_rows(kept[x], kept[y])
                assert close(joint.cross, plain.cross)
                assert close(joint.x.scatter, plain.x.scatter)
                assert close(joint.y.scatter, plain.y.scatter)
                assert joint.quartic.product == pytest.approx(plain.quartic.product)
                both = {site: torch.cat([kept[site], sinks[site]]) for site in (x, y)}
                whole = found.joint(x, y, fold, sinks=True)
                assert close(whole.cross, JointMoments.from_rows(both[x], both[y]).cross)


def test_the_recipe_says_both_networks_and_the_rule(networks, same, aligned):
    for found, b, align in ((same, networks[1], "tokens"), (aligned, networks[2], "characters")):
        recipe, partner = found.recipe, found.recipe.partner
        assert (recipe.model, recipe.weights) == (networks[0].name, networks[0].digest)
        assert (partner.model, partner.weights, partner.align) == (b.name, b.digest, align)
        assert partner.tokenizer == b.tokenizer_digest
        assert partner.tensors == b.fingerprints
        assert set(partner.rows.thresholds) == set(b.blueprint.residual_sites())
        assert recipe.format == 2
    assert same.recipe.tokenizer == same.recipe.partner.tokenizer
    assert aligned.recipe.tokenizer != aligned.recipe.partner.tokenizer


def test_sites_and_pairs(same, aligned):
    between = {Pair(f"a:{x}", f"b:{y}") for x in SITES[0] for y in SITES[1]}
    assert set(aligned.pairs) == between
    inside = {Pair("a:1.resid_pre", "a:final"), Pair("b:0.resid_pre", "b:2.mlp_out")}
    assert set(same.pairs) == between | inside
    assert set(same.sites) == {site for pair in between for site in pair[:2]}


def test_documents_are_pooled(networks, docs):
    a, b = networks[0], networks[2]
    found = collect_pair(a, b, docs, sites=SITES, align="documents", **{**SETTINGS, "tokens": None})
    assert found.recipe.partner.align == "documents"
    assert sum(c["rows"] for c in found.counts.values()) == 150 == found.documents.count
    assert sum(c["sinks"] for c in found.counts.values()) == 0
    packing = packing_of(a, docs, settings_of({**SETTINGS, "tokens": None}))
    means = {"a:final": [], "b:2.mlp_out": []}
    for document in packing.documents("train"):
        for prefix, network, site, rule in (
            ("a:", a, "final", found.recipe.rows),
            ("b:", b, "2.mlp_out", found.recipe.partner.rows),
        ):
            ids = torch.tensor(network.tokenizer(document.text)["input_ids"][:32])[None]
            mask = torch.ones_like(ids, dtype=torch.bool)
            captured = capture(network.model, network.blueprint, [site], ids, mask, norms=True)
            sinks = sink_rows(mask, captured.norms, rule, network.blueprint)
            means[prefix + site].append(captured.rows[site][~sinks].double().mean(0))
    plain = JointMoments.from_rows(*(torch.stack(rows) for rows in means.values()))
    joint = found.joint("a:final", "b:2.mlp_out", "train")
    assert joint.count == plain.count
    assert close(joint.cross, plain.cross, 1e-6)  # windows are padded in one, not in the other
    assert close(joint.x.scatter, plain.x.scatter, 1e-6)


def test_a_network_with_itself(networks, docs):
    """Every site equals its copy, so the cross scatter is the scatter."""
    a = networks[0]
    sites = (["1.resid_pre"], ["1.resid_pre"])
    found = collect_pair(a, a, docs, sites=sites, **SETTINGS)
    joint = found.joint("a:1.resid_pre", "b:1.resid_pre", FOLDS)
    assert close(joint.cross, joint.x.scatter, 1e-12)
    assert close(joint.y.scatter, joint.x.scatter, 1e-12)


def test_windows_of_pairs_give_the_same_as_one_pass(networks, docs, same):
    needs = PairedNeeds.of(networks[0], networks[1], SITES, inside=True)
    budget = needs.bytes() * 3 // 4
    passes = needs.passes(budget)
    assert len(passes) > 1
    assert sum(len(group) for group in passes) == len(needs.pairs)
    assert max(needs.bytes(group) for group in passes) <= budget
    split = collect_pair(
        networks[0], networks[1], docs, sites=SITES, inside=True, memory=budget, **SETTINGS
    )
    assert set(split.pairs) == set(same.pairs)
    for pair in same.pairs:
        a, b = (m.joint(pair.x, pair.y, FOLDS, sinks=True) for m in (same, split))
        assert close(a.cross, b.cross, 1e-12)
        assert close(a.y.scatter, b.y.scatter, 1e-12)
    with pytest.raises(GramianError, match="least budget") as caught:
        needs.passes(1000)
    least = int(str(caught.value).rsplit("is ", 1)[1].split()[0].replace(",", ""))
    assert max(needs.bytes(group) for group in needs.passes(least)) <= least


def test_cost_is_known_before_anything_runs(networks):
    a, b = networks[0], networks[1]
    cost = PairedNeeds.of(a, b).cost(a, b)
    depth, d, e = 4, 32, 40  # three layers and the input of the final norm
    assert (cost.sites, cost.pairs, cost.passes) == (2 * depth, depth**2, 1)
    entries = depth * (d * d + e * e) + depth**2 * d * e
    vectors = 3 * depth * (d + e) + depth**2 * (d + e)
    products = 2 * 4 * (d * d + e * e + d * e)
    writing = 16 * e * e + 48 * d * e
    assert cost.memory_bytes == 16 * (entries + vectors) + products + writing
    assert cost.statistics_operations == depth * (d * d + e * e) + 2 * depth**2 * d * e
    stored = depth * (d * (d + 1) + e * (e + 1)) // 2 + depth**2 * d * e
    assert cost.disk_bytes == 3 * 8 * stored
    assert set(json.loads(json.dumps(cost.to_json()))) >= {"sites", "pairs", "memory_bytes"}
    assert "16 pairs in 1 pass" in str(cost)


@pytest.mark.parametrize("passes", [1, 2])
def test_an_interrupted_run_ends_with_the_same_bits(networks, docs, tmp_path, passes):
    needs = PairedNeeds.of(networks[0], networks[2], SITES)
    arguments = {
        "sites": SITES,
        "memory": None if passes == 1 else needs.bytes() - 1,
        "reservoir": 5,
        **SETTINGS,
    }
    whole = collect_pair(networks[0], networks[2], docs, out=tmp_path / "whole", **arguments)
    batches = 0

    def stop(done, total):
        nonlocal batches
        batches += 1
        if batches in (4, 9, 14):
            raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            collect_pair(
                networks[0], networks[2], docs, out=tmp_path / "cut", progress=stop, **arguments
            )
    cut = collect_pair(networks[0], networks[2], docs, out=tmp_path / "cut", **arguments)
    assert not (tmp_path / "cut.partial").exists()
    assert [part.sha256 for part in cut.index.parts] == [part.sha256 for part in whole.index.parts]
    assert cut.counts == whole.counts
    assert cut.documents == whole.documents


def test_reservoirs_hold_rows_that_belong_together(networks, docs):
    found = collect_pair(networks[0], networks[2], docs, sites=SITES, reservoir=12, **SETTINGS)
    keys_a, rows_a = found.reservoir("a:final", "train")
    keys_b, rows_b = found.reservoir("b:2.mlp_out", "train")
    assert keys_a == keys_b
    kept, _ = paired_rows(networks[0], networks[2], found, docs)["train"]
    places = [int((kept["a:final"] - row).norm(dim=1).argmin()) for row in rows_a.double()]
    assert float((kept["b:2.mlp_out"][places] - rows_b.double()).abs().max()) < 1e-4


def test_joint_sets_add(networks, tmp_path):
    texts = tiny.texts(200, seed=3)
    settings = {**SETTINGS, "tokens": None}
    parts = [
        collect_pair(*networks[:2], documents(part), sites=SITES, **settings)
        for part in (texts[:100], texts[100:])
    ]
    total = add_moments(parts, tmp_path / "sum.moments")
    assert MomentSet.open(tmp_path / "sum.moments").recipe == parts[0].recipe
    expected = sum(part.joint("a:final", "b:0.resid_pre", "train") for part in parts)
    assert close(total.joint("a:final", "b:0.resid_pre", "train").cross, expected.cross, 1e-12)
    other = collect_pair(
        networks[0], networks[1], documents(texts[:60]), sites=SITES, align="characters", **settings
    )
    with pytest.raises(GramianError, match=r"partner\.align: 'tokens' against 'characters'"):
        add_moments([parts[1], other], None)


def test_all_tokens_when_no_row_is_a_sink(networks, docs):
    rule = RowRule(first=False, factor=None)
    found = collect_pair(*networks[:2], docs, sites=SITES, rule=rule, **SETTINGS)
    assert all(count["sinks"] == 0 for count in found.counts.values())
    assert isinstance(found.moments("b:0.resid_pre", "train"), Moments)


def test_refusals(networks, docs, tmp_path):
    a, b, c = networks
    cases = [
        ((a, c), {"align": "tokens"}, "do not have the same tokenizer"),
        ((a, b), {"align": "words"}, "align is 'words', expected one of auto, tokens"),
        ((a, b), {"sites": (["9.resid_pre"], ["final"])}, "layers 0 to 2"),
        ((a, b), {"sites": ([], ["final"])}, "no site of"),
        ((a, b), {"length": 128}, "64 positions"),
        ((a, b), {"batchrows": 1}, "batch_rows"),
    ]
    for pair, arguments, message in cases:
        with pytest.raises(GramianError, match=message):
            collect_pair(*pair, docs, **SETTINGS | arguments)
    (tmp_path / "x").mkdir()
    with pytest.raises(GramianError, match="exists"):
        collect_pair(a, b, docs, sites=SITES, out=tmp_path / "x", **SETTINGS)


def test_activations_that_are_not_finite_are_located(networks, docs, tmp_path):
    broken = open_checkpoint(tiny.save(tmp_path))
    weight = broken.model.get_parameter("model.layers.1.mlp.down_proj.weight")
    broken.digest  # noqa: B018 - fingerprints of the sound network
    with torch.no_grad():
        weight[0, 0] = float("nan")
    for align in ("tokens", "documents"):
        with pytest.raises(
            GramianError, match=r"site b:final is not finite .*document [0-9a-f]{12} at offset \d+"
        ):
            collect_pair(
                networks[0],
                broken,
                docs,
                sites=(["final"], ["final"]),
                align=align,
                **SETTINGS,
            )
