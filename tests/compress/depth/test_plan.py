"""Plans carried out: exact folds in every family, disjoint cuts, what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch

from gramian.compress import depth
from gramian.compress.depth.folding import fold_layers
from gramian.compress.depth.plan import block_parameters
from gramian.data import documents
from gramian.errors import GramianError
from gramian.maps import Dense
from gramian.networks import CombineLayers, DropLayers, Plan, Replace, apply
from gramian.networks import open as open_checkpoint
from gramian.networks.certificate import outputs_of
from tests import tiny
from tests.compress.depth.conftest import LAYERS, moments_of, opened


def logits(checkpoint):
    return outputs_of(checkpoint.model, tiny.ids())


@pytest.mark.parametrize("method", ["replace", "drop"])
def test_nothing_removed_changes_nothing(checkpoint, moments, method, tmp_path):
    plan = depth.plan(checkpoint, moments, remove=0, method=method)
    assert plan.evidence["parameters"] == plan.evidence["parameters_before"]
    apply(checkpoint, plan, tmp_path / "out")
    torch.testing.assert_close(
        logits(open_checkpoint(tmp_path / "out")), logits(checkpoint), rtol=0, atol=1e-4
    )


def test_one_cut(checkpoint, moments, tmp_path):
    plan = depth.plan(checkpoint, moments, remove=2)
    (cut,) = plan.evidence["cuts"]
    first, last = cut["layers"]
    assert last == first + 1
    assert cut["map"] == f"{first - 1}.mlp_out"
    certificate = apply(checkpoint, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-4
    written = open_checkpoint(tmp_path / "out")
    assert written.blueprint.depth == LAYERS - 2
    assert written.config.num_hidden_layers == LAYERS - 2
    assert [layer.self_attn.layer_idx for layer in written.model.model.layers] == [0, 1, 2, 3]
    # Only the MLP's last matrix before the cut is another.
    name = f"model.layers.{first - 1}.mlp.down_proj.weight"
    assert name in certificate.changed
    assert set(plan.evidence["removed"]) == {"of_layers", "of_model"}
    gone = plan.evidence["parameters_before"] - plan.evidence["parameters"]
    assert gone == block_parameters(checkpoint) * 2 // LAYERS
    assert plan.evidence["removed"]["of_layers"] == pytest.approx(2 / LAYERS)
    errors = [entry["error_report"] for entry in plan.evidence["layers"]]
    assert errors == [cut["error_report"]] * 2
    saved = tmp_path / "plan"
    plan.save(saved)
    assert Plan.load(saved).evidence == plan.evidence


def test_the_cheapest_cut_is_taken(checkpoint, moments):
    scored = depth.scores(checkpoint, moments, fits=False)
    starts = range(1, LAYERS - 1)
    expected = min(starts, key=lambda s: scored.angular(depth.Cut(s, 2)))
    plan = depth.plan(checkpoint, moments, remove=2)
    assert plan.evidence["cuts"][0]["layers"][0] == expected
    influence = sorted(scored.blocks, key=lambda b: b.influence)
    lowest = {block.layer for block in influence[:2]}
    dropped = depth.plan(checkpoint, moments, remove=2, method="drop", cuts=2, by="influence")
    gone = {layer for cut in dropped.evidence["cuts"] for layer in cut["layers"]}
    assert gone == lowest
    assert dropped.moves == (DropLayers(tuple(sorted(gone))),)
    assert [entry["error_report"] for entry in dropped.evidence["layers"]] == [1.0, 1.0]


def test_by_residual(checkpoint, moments):
    plan = depth.plan(checkpoint, moments, remove=1, by="residual")
    found = plan.evidence["cuts"][0]["layers"][0]
    assert found in range(1, LAYERS)
    assert plan.evidence["chosen_by"] == "residual"


def test_disjoint_cuts(checkpoint, moments, tmp_path):
    plan = depth.plan(checkpoint, moments, layers=(1, 3, 4))
    assert [type(move) for move in plan.moves] == [Replace, Replace]
    certificate = apply(checkpoint, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-4
    two = depth.plan(checkpoint, moments, remove=3, cuts=2)
    cuts = [cut["layers"] for cut in two.evidence["cuts"]]
    assert sum(map(len, cuts)) == 3
    for a, b in itertools.pairwise(cuts):
        assert b[0] > a[-1] + 1


def test_a_still_block_goes_without_loss(tmp_path):
    """Blocks that add nothing need no map, and the network stays what it was."""

    def still(model):
        for layer in model.model.layers[2:4]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()

    checkpoint = opened(tmp_path / "source", change=still)
    moments = moments_of(checkpoint, max_remove=2)
    plan = depth.plan(checkpoint, moments, remove=2)
    assert plan.evidence["cuts"][0]["layers"] == [2, 3]
    assert plan.evidence["cuts"][0]["error_report"] == 0.0
    apply(checkpoint, plan, tmp_path / "out")
    torch.testing.assert_close(
        logits(open_checkpoint(tmp_path / "out")), logits(checkpoint), rtol=0, atol=1e-4
    )


FAMILIES = ["qwen2", "gpt2", "opt", "phi", "mixtral"]


@pytest.mark.parametrize(
    "family",
    [*FAMILIES, *(pytest.param(f, marks=pytest.mark.slow) for f in ("falcon", "gpt_oss", "qwen3"))],
)
def test_the_fold_is_exact_in_every_family(family, tmp_path):
    """The map in the weights does what it does as a hook: biases, Conv1D, LayerNorm, parallel
    branches, and mixtures, where it goes into every expert."""
    # The types of gpt_oss layers are listed for three of them.
    shape = {"num_hidden_layers": 3} if family == "gpt_oss" else {}
    checkpoint = opened(tmp_path / "source", family, **shape)
    moments = moments_of(checkpoint, max_remove=1, tokens=2000)
    plan = depth.plan(checkpoint, moments, layers=(1,))
    certificate = apply(checkpoint, plan, tmp_path / "out")
    assert certificate.reference_error < 1e-5
    assert plan.evidence["cuts"][0]["error_train"] < 1.0
    (move,) = plan.moves
    assert isinstance(move, Replace)
    assert isinstance(move.map, Dense)


@pytest.mark.parametrize(
    "family,said", [("gemma2", "output of a norm"), ("opt_after", "a norm is applied")]
)
def test_where_no_map_can_go(family, said, tmp_path):
    checkpoint = opened(tmp_path / "source", family)
    moments = moments_of(checkpoint, max_remove=1, tokens=2000)
    with pytest.raises(GramianError, match=f"{said}.*take method='drop'"):
        depth.plan(checkpoint, moments, remove=1)
    plan = depth.plan(checkpoint, moments, remove=1, method="drop")
    assert apply(checkpoint, plan, tmp_path / "out").reference_error < 1e-5


@pytest.mark.parametrize(
    "options,said",
    [
        ({}, "either remove"),
        ({"remove": 1, "layers": (1,)}, "either remove"),
        ({"remove": LAYERS}, "from 0 to 5"),
        ({"remove": 1, "method": "delete"}, "expected one of replace, drop, laco"),
        ({"remove": 1, "objective": "mean"}, "expected one of ls, weighted, cosine"),
        ({"remove": 1, "objective": "cosine", "method": "drop"}, "is of method 'replace'"),
        ({"remove": 1, "ridge": 0.1, "method": "drop"}, "a ridge goes with"),
        ({"remove": 1, "ridge": -1.0}, "finite numbers"),
        ({"remove": 1, "by": "size"}, "expected one of angular"),
        ({"remove": 1, "method": "laco"}, "give docs"),
        ({"layers": (1,), "method": "laco"}, "chooses the blocks itself"),
        ({"remove": 1, "span": 2}, "only of method 'laco'"),
        ({"layers": (0,)}, "no block comes before block 0"),
        ({"layers": (9,)}, "from 0 to 5"),
    ],
)
def test_refused(checkpoint, moments, options, said):
    with pytest.raises(GramianError, match=said):
        depth.plan(checkpoint, moments, **options)


def test_cuts_longer_than_was_collected(checkpoint):
    short = moments_of(checkpoint, max_remove=1, tokens=2000)
    with pytest.raises(GramianError, match="no choice of 3 blocks in 1 cut"):
        depth.plan(checkpoint, short, remove=3)
    with pytest.raises(GramianError, match="collect with --for depth:3"):
        depth.plan(checkpoint, short, layers=(2, 3, 4))
    assert len(depth.plan(checkpoint, short, remove=2, cuts=2).moves) == 2
    assert depth.plan(checkpoint, short, remove=3, method="drop").moves


def test_moments_of_another_model(moments, tmp_path):
    other = opened(tmp_path, seed=7)
    with pytest.raises(GramianError, match="not of"):
        depth.plan(other, moments, remove=1)


def test_needs_grow_with_the_longest_cut(checkpoint):
    pairs = [
        len(depth.needs(checkpoint, max_remove=n, linearity=False).pairs(checkpoint.blueprint))
        for n in (0, 1, 2, LAYERS)
    ]
    # From each MLP but the last: the stream before the cut, and after 1, 2, ... blocks.
    assert pairs == [0, 10, 14, 20]
    assert depth.needs(checkpoint).cost(checkpoint).pairs == 14 + LAYERS
    with pytest.raises(GramianError, match="at least 0"):
        depth.needs(checkpoint, max_remove=-1)


def test_folding_layers(checkpoint, tmp_path):
    docs = documents(tiny.texts(20))
    found = fold_layers(checkpoint, docs, 2, span=3, tokens=300, length=32)
    assert all(isinstance(move, CombineLayers) for move in found.moves)
    assert len(found.layers) == 2
    assert found.cosine > found.threshold
    plan = depth.plan(
        checkpoint, None, remove=2, method="laco", docs=docs, span=3, tokens=300, length=32
    )
    assert plan.moves == found.moves
    assert apply(checkpoint, plan, tmp_path / "out").reference_error < 1e-4
    assert open_checkpoint(tmp_path / "out").blueprint.depth == LAYERS - 2
    with pytest.raises(GramianError, match="give a lower threshold"):
        fold_layers(checkpoint, docs, 2, threshold=1.0, tokens=300, length=32)
    for options, said in (({"span": 1}, "at least 2"), ({"threshold": 2.0}, "from -1 to 1")):
        with pytest.raises(GramianError, match=said):
            fold_layers(checkpoint, docs, 2, **options)
