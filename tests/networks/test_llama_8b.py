"""Llama 3 8B planned from its configuration alone: bytes against arithmetic written out."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig

from gramian.errors import GramianError
from gramian.lens import needs as lens_needs
from gramian.networks import Checkpoint, linears, rank
from gramian.networks.estimate import estimate
from gramian.networks.passes import plan_passes
from gramian.networks.sources import Source

LAYERS, D, MID, HEADS, KV, VOCABULARY = 32, 4096, 14336, 32, 8, 128256
FLOAT64, FLOAT32, BFLOAT16 = 8, 4, 2
TOKENS = 1_000_000
DISK = 10**13
BUDGETS = {"100GB": 10**11, "18GB": 18 * 10**9, "4GB": 4 * 10**9, "500MB": 5 * 10**8}


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    config = LlamaConfig(
        hidden_size=D,
        intermediate_size=MID,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV,
        vocab_size=VOCABULARY,
        max_position_embeddings=8192,
        torch_dtype="bfloat16",
    )
    folder = tmp_path_factory.mktemp("llama")
    config.save_pretrained(folder)
    return Checkpoint(Source("llama-3-8b", str(folder)), config, "cpu", torch.bfloat16)


@pytest.fixture(autouse=True)
def nothing_is_allocated(monkeypatch):
    """No plan may read weights or make a large tensor."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("a plan reads no weights")

    monkeypatch.setattr(Source, "load_model", refuse)


def accumulating(full, diagonal, pairs, increments):
    """Bytes of one group: widths of whole scatters, of diagonals, of pairs and of increments."""
    shapes = {(d, d) for d in full} | set(pairs)
    sums = 2 * FLOAT64 * (sum(d * d for d in full) + sum(x * y for x, y in pairs))
    vectors = (
        2 * FLOAT64 * (3 * sum([*full, *diagonal, *increments]) + sum(x + y for x, y in pairs))
    )
    products = 2 * FLOAT32 * sum(x * y for x, y in shapes)
    square = max((d * d for d in full), default=0)
    cross = max((x * y for x, y in pairs), default=0)
    writing = 2 * FLOAT64 * square + 6 * FLOAT64 * max(square // 2, cross)
    return sums + vectors + products + writing


ONE_PASS = {
    # resid_pre, attn_in, mlp_in of every layer; targets; casts to the last and the next layer
    # (the same for the last layer), attention and MLP.
    "lens": accumulating(
        [D] * 3 * LAYERS,
        [D] * (2 * LAYERS + 1),
        [(D, D)] * (2 * LAYERS - 1 + 2 * LAYERS),
        [D] * (2 * LAYERS - 1),
    ),
    # attn_in, z, mlp_in and mlp_mid
    "linears": accumulating([*[D] * 3 * LAYERS, *[MID] * LAYERS], [], [], []),
    # attn_in, z, mlp_in and mlp_out
    "rank": accumulating([D] * 4 * LAYERS, [], [], []),
}
JOBS = {"lens": lens_needs, "linears": linears, "rank": rank}


@pytest.mark.parametrize("job", JOBS)
def test_one_pass(llama, job):
    plan = plan_passes(llama, JOBS[job](llama), None)
    assert plan.mode == "stream"
    assert plan.bytes == ONE_PASS[job]
    assert llama.skeleton.get_parameter("lm_head.weight").device.type == "meta"


# What a group may hold at each budget, by hand.
LENS_PAIR = accumulating([D], [D], [(D, D)], [D])
MIDDLE = accumulating([MID], [], [], [])
NARROW = accumulating([D], [], [], [])


def test_arithmetic_by_hand():
    # In units of the 16.8 million entries of a 4096 x 4096 matrix: 16 bytes of sums each, 8 of
    # product buffers for a shape, 16 + 24 to write a scatter, 16 + 48 to write a pair.
    unit = D * D
    vectors = 2 * FLOAT64 * D
    assert (16 + 8 + 40) * unit + 3 * vectors == NARROW
    assert (2 * 16 + 8 + 64) * unit + (3 * 3 + 2) * vectors == LENS_PAIR
    assert MIDDLE == (16 + 8 + 40) * MID * MID + 3 * 2 * FLOAT64 * MID
    assert ONE_PASS["rank"] == (4 * LAYERS * 16 + 8 + 40) * unit + 4 * LAYERS * 3 * vectors
    assert [round(n / 1e9, 1) for n in ONE_PASS.values()] == [61.1, 141.0, 35.2]
    assert [round(n / 1e9, 2) for n in (NARROW, LENS_PAIR, MIDDLE)] == [1.07, 1.75, 13.15]


MODES = {
    ("lens", "100GB"): "stream",
    ("lens", "18GB"): "blockwise",
    ("lens", "4GB"): "blockwise",
    ("lens", "500MB"): "spill",
    ("linears", "100GB"): "windows",
    ("linears", "18GB"): "blockwise",
    ("linears", "4GB"): "spill",
    ("linears", "500MB"): "spill",
    ("rank", "100GB"): "stream",
    ("rank", "18GB"): "windows",
    ("rank", "4GB"): "blockwise",
    ("rank", "500MB"): "spill",
}


@pytest.mark.parametrize("job,budget", MODES)
def test_budgets(llama, job, budget):
    needs = JOBS[job](llama)
    plan = plan_passes(llama, needs, BUDGETS[budget], tokens=TOKENS, disk=DISK)
    assert plan.mode == MODES[job, budget]
    assert plan.bytes <= BUDGETS[budget]
    covered = [need for group in plan.groups for need in group]
    assert len(covered) == len(set(covered)) == len(needs.items)


def test_how_many_groups_rank_takes(llama):
    unit, vectors = D * D, 3 * 2 * FLOAT64 * D
    # 8 + 40 units for one shape and for writing, then 16 and a few vectors for every site
    each = 16 * unit + vectors
    for budget in ("18GB", "4GB"):
        fit = (BUDGETS[budget] - 48 * unit) // each
        plan = plan_passes(llama, rank(llama), BUDGETS[budget], tokens=TOKENS, disk=DISK)
        assert len(plan.groups) == -(-4 * LAYERS // fit)
        assert plan.bytes == 48 * unit + min(fit, 4 * LAYERS) * each


@pytest.mark.parametrize("job", JOBS)
def test_rows_on_disk(llama, job):
    # attn_in follows from the stream, and mlp_in too where attn_out is kept beside it.
    widths = {"lens": 2 * D * LAYERS, "linears": (2 * D + MID) * LAYERS, "rank": 3 * D * LAYERS}
    stream = (LAYERS + 1) * D
    side = 4 * 4 + FLOAT32 * (LAYERS + 1)  # place of the token, and a norm behind every layer
    rows = BFLOAT16 * (widths[job] + stream) + side
    inputs = BFLOAT16 * stream + side
    needs, memory = JOBS[job](llama), BUDGETS["4GB" if job == "rank" else "18GB"]
    plan = plan_passes(llama, needs, memory, tokens=TOKENS, disk=DISK)
    assert (plan.carry.what, plan.carry.row_bytes, plan.disk) == ("rows", rows, rows * TOKENS)
    assert plan.forwards == 1
    small = plan_passes(llama, needs, memory, tokens=TOKENS, disk=rows * TOKENS - 1)
    assert (small.carry.what, small.carry.bytes, small.forwards) == ("inputs", inputs * TOKENS, 2)
    none = plan_passes(llama, needs, memory, tokens=TOKENS, disk=inputs * TOKENS - 1)
    assert none.mode == "windows"
    assert none.forwards == len(none.groups) > 2


def test_spilled_sums(llama):
    plan = plan_passes(llama, linears(llama), BUDGETS["4GB"], tokens=TOKENS, disk=DISK)
    # Only the widest sites lie in maps: sums, sink sums, products and what writing takes.
    assert len(plan.mapped) == LAYERS
    assert plan.map_bytes == (16 + 8 + 40) * MID * MID
    assert all(len(plan.groups[index].items) == 1 for index in plan.mapped)
    assert NARROW <= plan.bytes <= BUDGETS["4GB"]
    small = plan_passes(llama, linears(llama), BUDGETS["500MB"], tokens=TOKENS, disk=DISK)
    assert small.bytes == 3 * 2 * FLOAT64 * MID  # vectors alone
    with pytest.raises(GramianError, match="of which"):
        plan_passes(llama, linears(llama), BUDGETS["4GB"], tokens=TOKENS, disk=plan.disk - 1)


def test_the_estimate_of_a_dry_run(llama):
    plan = plan_passes(llama, rank(llama), BUDGETS["4GB"], tokens=TOKENS, disk=DISK)
    cost = estimate(llama, rank(llama), plan, tokens=TOKENS, batch_rows=2048)
    assert cost.sites == 4 * LAYERS
    # Three folds, the lower half of each scatter.
    assert cost.disk_bytes == 3 * FLOAT64 * 4 * LAYERS * D * (D + 1) // 2
    kv = D * KV // HEADS
    matrices = LAYERS * (2 * D * D + 2 * D * kv + 3 * D * MID)
    assert cost.forward_operations == 2 * matrices
    assert cost.statistics_operations == 4 * LAYERS * D * D
    assert cost.working_bytes == plan.disk
    assert cost.minutes > 0
    for word in ("blockwise", "one pass would take 35.2 GB", "windows would take", "minutes"):
        assert word in str(cost)


def test_half_a_billion_bytes_hold_no_pair_in_memory(llama):
    with pytest.raises(GramianError, match=f"{LENS_PAIR:,} bytes$"):
        plan_passes(llama, lens_needs(llama), BUDGETS["500MB"], mode="windows")
