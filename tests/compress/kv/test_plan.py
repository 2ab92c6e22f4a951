"""Smaller caches: what stays, what is predicted, what is written."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import kv
from gramian.compress.kv.allocation import greedy, uniform
from gramian.compress.kv.cutting import How, cuts
from gramian.compress.kv.layers import AttentionLayer
from gramian.errors import GramianError
from gramian.maps import Affine
from gramian.moments import Moments
from gramian.networks import CacheLatent, FoldProjection, apply, capture
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from gramian.networks.draft import Draft
from tests import tiny
from tests.compress.narrowed import moments_of, opened, rows_of

PLAIN = {"metric": "plain"}


def shares(plan, kind):
    return [one["kept"] for one in plan.evidence["layers"] if one["part"] == kind]


def lost(plan, kind):
    return sum(one["error_report"] for one in plan.evidence["layers"] if one["part"] == kind)


def test_all_of_the_cache_changes_nothing(collected, tmp_path):
    checkpoint, moments = collected()
    plan = kv.plan(checkpoint, moments, keep=1.0)
    assert plan.moves == ()
    assert plan.evidence["kv_bytes_per_token"] == plan.evidence["kv_bytes_per_token_before"] == 384
    assert apply(checkpoint, plan, tmp_path / "out").change == 0


@pytest.mark.parametrize("groups", ["joint", "head", 1, 2, "2"])
def test_the_cache_is_as_large_as_was_asked(collected, groups, tmp_path):
    checkpoint, moments = collected()
    plan = kv.plan(checkpoint, moments, keep=0.5, groups=groups)
    assert plan.evidence["kv_bytes_per_token"] == 192
    assert sum(sum(move.ranks) for move in plan.moves) + 16 * (6 - len(plan.moves)) == 48
    certified = apply(checkpoint, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    found = written.model.generate(
        tiny.ids(2, 8),
        max_new_tokens=6,
        do_sample=False,
        return_dict_in_generate=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in found.cache.layers)
    assert held / 2 / 13 == plan.evidence["kv_bytes_per_token"]
    assert certified.parameters == plan.evidence["parameters"]


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2", "opt", "gemma3_text"])
@pytest.mark.parametrize("options", [{}, {"groups": "head", "centre": True}, PLAIN])
def test_predicted_errors_are_those_of_the_same_rows(collected, family, options, tmp_path):
    """In the first layer, which nothing upstream has changed."""
    checkpoint, moments = collected(family)
    plan = kv.plan(checkpoint, moments, keep=0.6, dense=True, **options)
    apply(checkpoint, plan, tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    written.__dict__["tokenizer"] = tiny.tokenizer()
    for one in plan.evidence["layers"][:2]:
        site = f"0.{one['part']}"
        before, after = rows_of(checkpoint, site), rows_of(written, site)
        error = float((after - before).square().sum() / before.square().sum())
        assert one["error_report"] == pytest.approx(error, rel=2e-3, abs=1e-6)


def test_joint_loses_no_more_than_groups_and_they_no_more_than_heads(collected):
    """J-LRD <= G-LRD <= M-LRD at an equal sum of ranks, of keys and of values."""
    checkpoint, moments = collected(num_key_value_heads=4)
    for metric in ("plain", "read"):
        sums = []
        for groups in ("joint", 2, "head"):
            found = cuts(checkpoint, moments, How("palu", groups, metric, False))
            for cut in found:
                ranks = greedy([g.values for g in cut.groups], [1.0] * len(cut.groups), 13)
                part = sum(g.lost(r) for g, r in zip(cut.groups, ranks, strict=True))
                sums.append(part / sum(g.total for g in cut.groups))
        joint, grouped, alone = torch.tensor(sums).view(3, -1)
        assert bool((joint <= grouped + 1e-12).all() and (grouped <= alone + 1e-12).all())
        assert bool((joint < alone).any())


def test_more_directions_lose_less_and_data_beats_none(collected):
    checkpoint, moments = collected()
    errors = [
        lost(kv.plan(checkpoint, moments, keys=share, values=share, dense=True, **PLAIN), "v")
        for share in (0.25, 0.5, 0.75, 0.9)
    ]
    assert errors == sorted(errors, reverse=True)
    even = {"allocate": "uniform", "values": 0.5, "dense": True}
    ours = kv.plan(checkpoint, moments, **PLAIN, **even)
    naive = kv.plan(checkpoint, moments, method="svd", **even)
    assert shares(ours, "v") == shares(naive, "v") == [0.5] * 3
    assert lost(ours, "v") < lost(naive, "v")


def low_rank(model):
    """Keys and values of three directions for all heads together."""
    for name, parameter in model.named_parameters():
        if "k_proj.weight" in name or "v_proj.weight" in name:
            u, s, v = torch.linalg.svd(parameter, full_matrices=False)
            parameter.copy_((u[:, :3] * s[:3]) @ v[:3])


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("metric", ["plain", "read"])
def test_planted_directions_are_found_without_loss(family, metric, tmp_path):
    """Biases stay out of the coordinates, which are three whatever they are."""
    checkpoint = opened(tmp_path / "in", family, low_rank)
    moments = moments_of(checkpoint, kv)
    plan = kv.plan(checkpoint, moments, keep=3 / 16, metric=metric)
    assert all(move.ranks == (3,) for move in plan.moves)
    certified = apply(checkpoint, plan, tmp_path / "out")
    assert certified.change < 1e-4
    assert plan.evidence["kv_bytes_per_token"] == 72


def test_a_bias_is_no_direction(collected):
    checkpoint, moments = collected("qwen2")
    for cut in cuts(checkpoint, moments, How("palu", "joint", "read", False)):
        here = AttentionLayer.of(Draft.of(checkpoint), cut.layer, None)
        bias = here.made(cut.kind).bias
        torch.testing.assert_close(cut.kept, bias)
        torch.testing.assert_close(cut.map((2,))(bias), bias, rtol=1e-9, atol=1e-9)


def test_centred_errors_are_those_about_the_mean():
    rows = 1e4 + torch.randn(500, 6, dtype=torch.float64)
    moments = Moments.from_rows(rows)
    from gramian.compress.kv.parts import Cut
    from gramian.solvers.latent import latent

    cut = Cut(0, "v", (latent(moments.scatter / 500),), moments.mean, 1.0)
    map = cut.map((3,))
    assert isinstance(map, Affine)
    expected = float((map(rows) - rows).square().sum() / rows.square().sum())
    assert cut.error(moments, (3,)) == pytest.approx(expected, rel=1e-6)


def test_matryoshka_keeps_what_the_queries_see(collected, tmp_path):
    checkpoint, moments = collected()
    plan = kv.plan(checkpoint, moments, keys=0.6, values=0.6, method="matryoshka")
    sites = [move.site for move in plan.moves]
    assert "1.k_rope" in sites
    assert "1.v" in sites
    assert plan.evidence["layers"][0]["error_report"] is None
    assert plan.evidence["kv_bytes_per_token"] == 4 * 2 * int(0.6 * 48)
    assert apply(checkpoint, plan, tmp_path / "out").reference_error < 1e-5


def test_moments_of_rotated_keys_are_averages_over_positions(collected):
    """Against the rows themselves, every one of them at every position."""
    checkpoint, moments = collected()
    cut = cuts(checkpoint, moments, How("matryoshka", "head", "plain", False))[0]
    rows = torch.cat([rows_of(checkpoint, "0.k", fold) for fold in ("train", "select")])
    from gramian.networks.rotary import rotary_of

    rotary = rotary_of(checkpoint.model, checkpoint.blueprint.layers[0])
    keys = rows[:, :8].float()[None, None].expand(1, 1, -1, -1)
    every = torch.cat(
        [
            rotary(keys, torch.full((1, len(rows)), position))[0, 0].double()
            for position in range(moments.recipe.length)
        ]
    )
    values = torch.linalg.eigvalsh(torch.cov(every.T, correction=0)).flip(0)
    torch.testing.assert_close(cut.groups[0].values, values, rtol=1e-4, atol=1e-5)


def test_constants_added_to_rotated_keys_change_nothing(collected, tmp_path):
    """The softmax sees differences of logits alone, so the mean of the keys is not stored."""
    checkpoint, moments = collected()
    map = cuts(checkpoint, moments, How("matryoshka", "head", "read", False))[2].map((5, 6))
    moved = Affine(map, torch.randn(16, dtype=torch.float64))
    outputs = []
    for one in (map, moved):
        with torch.no_grad():
            from contextlib import ExitStack

            with ExitStack() as stack:
                draft = Draft.of(checkpoint)
                move = CacheLatent("1.k_rope", one, (5, 6))
                move.hooks(checkpoint.model, checkpoint.blueprint, draft, stack)
                outputs.append(outputs_of(checkpoint.model, tiny.ids()))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", ["gpt2", "gpt_neox", "phi3", "falcon"])
def test_fused_projections_are_cut_dense_and_refused_otherwise(collected, family, tmp_path):
    checkpoint, moments = collected(family)
    plan = kv.plan(checkpoint, moments, keep=0.5, dense=True)
    assert all(isinstance(move, FoldProjection) for move in plan.moves)
    assert "caches as much as before" in plan.evidence["warnings"][0]
    assert plan.evidence["kv_bytes_per_token"] == plan.evidence["kv_bytes_per_token_before"]
    assert apply(checkpoint, plan, tmp_path / "out").reference_error < 1e-5
    with pytest.raises(GramianError, match="--dense"):
        kv.plan(checkpoint, moments, keep=0.5)


def test_dense_and_latent_compute_the_same(collected, tmp_path):
    checkpoint, moments = collected()
    outputs = []
    for dense in (False, True):
        apply(
            checkpoint, kv.plan(checkpoint, moments, keep=0.5, dense=dense), tmp_path / f"{dense}"
        )
        outputs.append(outputs_of(open_checkpoint(tmp_path / f"{dense}").model, tiny.ids()))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-4 * float(outputs[0].abs().max()))


def test_ranks_are_dealt_where_they_save_most():
    curves = [torch.tensor(v, dtype=torch.float64) for v in ([8.0, 4, 1, 0], [5.0, 3, 2, 1])]
    assert greedy(curves, [1.0, 1.0], 5) == [2, 3]
    assert greedy(curves, [1.0, 0.1], 5) == [3, 2] or greedy(curves, [1.0, 0.1], 5) == [4, 1]
    assert greedy(curves, [1.0, 1.0], 8) == [4, 4]
    assert greedy(curves, [1.0, 1.0], 6, multiple=2) == [2, 4]
    assert uniform([4, 10], 0.5) == [2, 5]
    assert uniform([4, 10], 0.5, multiple=4) == [4, 4]
    # No other ranks of the same sum lose less.
    generator = torch.Generator().manual_seed(0)
    drawn = [
        torch.rand(4, generator=generator).double().sort(descending=True).values for _ in "abc"
    ]

    def tails(ranks):
        return sum(float(c[r:].sum()) for c, r in zip(drawn, ranks, strict=True))

    best = min(
        tails((a, b, 7 - a - b)) for a in range(1, 5) for b in range(1, 5) if 1 <= 7 - a - b <= 4
    )
    assert tails(greedy(drawn, [1.0] * 3, 7)) == pytest.approx(best)
    with pytest.raises(GramianError, match="expected between 2"):
        greedy(curves, [1.0, 1.0], 1)


def test_shares_of_keys_and_values_apart(collected):
    checkpoint, moments = collected()
    plan = kv.plan(checkpoint, moments, keys=0.25)
    assert sum(shares(plan, "k")) / 3 == 0.25
    assert shares(plan, "v") == [1.0] * 3
    both = kv.plan(checkpoint, moments, keys=0.25, values=0.75)
    assert both.evidence["kept"] == {"k": 0.25, "v": 0.75}
    tens = kv.plan(checkpoint, moments, keep=0.5, groups="head", multiple=4)
    assert all(rank % 4 == 0 for move in tens.moves for rank in move.ranks)


def test_what_it_refuses(collected, checkpoint_of):
    checkpoint, moments = collected()
    for bad in ({"keep": 0.0}, {"keep": 1.5}, {"keys": -1.0}, {"values": float("nan")}):
        with pytest.raises(GramianError, match="expected a share in"):
            kv.plan(checkpoint, moments, **bad)
    for options, words in (
        ({}, "of the whole cache"),
        ({"keep": 0.5, "keys": 0.5}, "of the whole cache"),
        ({"keep": 0.5, "groups": 3}, "divides the 2 heads"),
        ({"keep": 0.5, "groups": "all"}, "'head', 'joint'"),
        ({"keep": 0.5, "method": "pca"}, "palu, matryoshka, svd"),
        ({"keep": 0.5, "metric": "l2"}, "read, plain"),
        ({"keep": 0.5, "allocate": "energy"}, "'greedy' or 'uniform'"),
        ({"keep": 0.5, "multiple": 0}, "at least 1"),
        ({"keep": 0.05}, "at least 1 in each"),
        ({"keep": 0.5, "method": "matryoshka", "groups": "joint"}, "basis for every head"),
        ({"keep": 0.5, "method": "matryoshka", "dense": True}, "no dense form|has no dense"),
    ):
        with pytest.raises(GramianError, match=words):
            kv.plan(checkpoint, moments, **options)
    _other, others = collected("qwen2")
    with pytest.raises(GramianError, match="collect them on this model"):
        kv.plan(checkpoint, others, keep=0.5)
    with pytest.raises(GramianError, match="--for kv"):
        kv.plan(checkpoint, checkpoint_of(checkpoint), keep=0.5)
    normed, moments = collected("qwen3")
    with pytest.raises(GramianError, match="normalises queries and keys"):
        kv.plan(normed, moments, keep=0.5, method="matryoshka")


@pytest.fixture
def checkpoint_of():
    """Moments without the input of any attention."""
    from gramian.compress import mlp

    return lambda checkpoint: moments_of(checkpoint, mlp)


def test_encoders_have_no_cache(tmp_path):
    encoder = open_checkpoint(tiny.save(tmp_path / "bert", "bert"))
    with pytest.raises(GramianError, match="no cache"):
        kv.needs(encoder)


def test_few_rows_are_said(tmp_path):
    checkpoint = opened(tmp_path / "in")
    moments = moments_of(checkpoint, kv, tokens=150)
    plan = kv.plan(checkpoint, moments, keep=0.5)
    assert any("collect more tokens" in said for said in plan.evidence["warnings"])


def test_capture_of_the_written_network(collected, tmp_path):
    """Sites are seen in the written folder as in any other."""
    checkpoint, moments = collected()
    apply(checkpoint, kv.plan(checkpoint, moments, keep=0.5), tmp_path / "out")
    written = open_checkpoint(tmp_path / "out")
    rows = capture(written.model, written.blueprint, ["1.k", "1.v", "1.z"], tiny.ids()).rows
    assert torch.linalg.matrix_rank(rows["1.k"].flatten(0, 1), rtol=1e-4) < 16
