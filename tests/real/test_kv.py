"""Smaller caches on real weights: SmolLM2-135M, three heads of keys and values."""

from __future__ import annotations

import pytest
import torch

import gramian as gm
from gramian.compress import kv
from gramian.networks.certificate import outputs_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def base():
    return gm.open("bundled:smollm2")


@pytest.fixture(scope="module")
def moments(base):
    docs = gm.documents("bundled:pydocs")
    return gm.collect(base, docs, kv.needs(base), tokens=4096, length=256)


@pytest.fixture(scope="module")
def ids(base):
    docs = gm.documents("bundled:pydocs")
    packing = gm.data.Packing(docs, base.tokenizer, length=256, tokens=256)
    return next(iter(packing)).ids[:1]


def mean_loss(model, ids):
    logits = outputs_of(model, ids)[:, :-1]
    return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))


def generated(model, ids, tokens=12):
    """New tokens, and bytes cached for each token."""
    found = model.generate(
        ids, max_new_tokens=tokens, do_sample=False, return_dict_in_generate=True
    )
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in found.cache.layers)
    return found.sequences[0, ids.shape[1] :], cached / (found.sequences.shape[1] - 1)


def test_all_coordinates_generate_the_same_tokens(base, moments, ids, tmp_path):
    """Keys rebuilt and rotated anew, or turned behind the rotation; nothing is left out."""
    from gramian.compress.kv.cutting import How, cuts

    prompt = ids[:, :48]
    expected, whole = generated(base.model, prompt)
    for method, groups, site in (("palu", "joint", "k"), ("matryoshka", "head", "k_rope")):
        found = cuts(base, moments, How(method, groups, "read", False))
        moves = []
        for cut in found:
            ranks = tuple(len(group.values) for group in cut.groups)
            name = f"{cut.layer}.{site if cut.kind == 'k' else 'v'}"
            moves.append(gm.networks.CacheLatent(name, cut.map(ranks), ranks))
        gm.apply(base, gm.Plan.of(base, *moves), tmp_path / method)
        tokens, cached = generated(gm.open(tmp_path / method).model, prompt)
        assert tokens.equal(expected)
        assert cached == whole == 4 * 11520


def test_three_quarters_of_the_cache_cost_little(base, moments, ids, tmp_path):
    dense = mean_loss(base.model, ids)
    plan = kv.plan(base, moments, keep=0.75)
    gm.apply(base, plan, tmp_path / "out")
    written = gm.open(tmp_path / "out")
    assert mean_loss(written.model, ids) < dense + 0.2
    _, cached = generated(written.model, ids[:, :48])
    assert cached == plan.evidence["kv_bytes_per_token"] == 4 * 8640
    naive = kv.plan(base, moments, keep=0.75, method="svd", allocate="uniform", dense=True)
    assert mean_loss(gm.networks.realise(base, naive), ids) > dense + 1
