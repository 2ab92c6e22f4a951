"""Scores on text against brute force, the early-exit rule, and prompts."""

from __future__ import annotations

import math

import pytest
import torch

from gramian import lens
from gramian.data import documents
from gramian.errors import GramianError
from gramian.lens.judge import Judgement
from gramian.moments import FOLDS
from gramian.moments.digests import to_digests
from tests import tiny


@pytest.fixture(scope="module")
def fresh():
    return documents(tiny.texts(80, seed=11))


def test_scores_equal_brute_force(opened, moments, fresh):
    casts = lens.solve(opened, moments)
    packing = lens.unseen(opened, moments, fresh, tokens=400, length=32)
    judged = lens.judge(opened, casts, packing, rule=moments.recipe.rows, chunk=17)
    layer = 1
    cast = casts[f"{layer}.resid_pre"]
    totals: dict[str, list[torch.Tensor]] = {}
    for batch in packing:
        with torch.no_grad():
            out = opened.model(
                batch.ids, attention_mask=batch.mask.long(), output_hidden_states=True
            )
        keep = batch.mask.clone()
        keep[:, 0] = False
        state = out.hidden_states[layer][keep]
        p = out.logits[keep].double().log_softmax(-1)
        head = opened.model.lm_head
        for name, moved in (("cast", cast.map(state.double()).float()), ("identity", state)):
            with torch.no_grad():
                q = head(opened.model.model.norm(moved)).double().log_softmax(-1)
            first = p.argmax(-1)
            kl = (p.exp() * (p - q)).sum(-1)
            totals.setdefault(f"{name} kl", []).append(kl)
            totals.setdefault(f"{name} agreement", []).append((q.argmax(-1) == first).double())
            best = q.topk(5).indices
            totals.setdefault(f"{name} five", []).append((best == first[:, None]).any(-1).double())
            surprisal = -q.gather(-1, first[:, None])[:, 0]
            totals.setdefault(f"{name} surprisal", []).append(surprisal)
    mean = {name: float(torch.cat(parts).mean()) for name, parts in totals.items()}
    found = judged.layers[layer]
    assert found.kl == pytest.approx(mean["cast kl"], rel=1e-4)
    assert found.kl_identity == pytest.approx(mean["identity kl"], rel=1e-4)
    assert found.agreement == pytest.approx(mean["cast agreement"], abs=1e-9)
    assert found.agreement_identity == pytest.approx(mean["identity agreement"], abs=1e-9)
    assert found.precision_at_5 == pytest.approx(mean["cast five"], abs=1e-9)
    assert found.surprisal == pytest.approx(mean["cast surprisal"], rel=1e-4)
    assert judged.tokens == len(torch.cat(totals["cast kl"]))


def test_collected_documents_are_left_out(opened, docs, moments):
    known = {d for fold in FOLDS for d in moments.document_digests(fold).tolist()}
    collected = [d.text for d in docs if to_digests([d.digest]).tolist()[0] in known]
    assert len(collected) > 100
    with pytest.raises(GramianError, match="give other text"):
        lens.unseen(opened, moments, documents(collected[:1]), tokens=100, length=32)
    mixed = documents([*collected[:20], *tiny.texts(60, seed=12)])
    packing = lens.unseen(opened, moments, mixed, tokens=300, length=32)
    used = {digest for batch in packing for digest in batch.digests}
    assert used
    assert not used & {d.digest for d in docs}
    one = lens.unseen(opened, moments, documents(["w1 w2 w3 w4"]), tokens=100, length=32)
    assert [int(batch.mask.sum()) for batch in one] == [4]


def made(confidence, agrees, position):
    return Judgement(
        tokens=len(position),
        layers=(),
        confidence=torch.tensor(confidence),
        agrees=torch.tensor(agrees),
        position=torch.tensor(position),
    )


def test_early_exit_by_hand():
    """Two layers, eight rows; the second half repeats the first, so the figures are known."""
    confidence = [[0.95, 0.2, 0.6, 0.1] * 2, [0.99, 0.9, 0.7, 0.3] * 2]
    agrees = [[True, False, False, False] * 2, [True, True, True, False] * 2]
    judged = made(confidence, agrees, [1000] * 8)
    exit = lens.early_exit(judged, agreement=1.0, length=10)
    # Lambda must pass 0.6 / 0.9 so that row 3 waits for layer 2, and stay below 0.7 / 0.9.
    assert 0.6 / 0.9 < exit.threshold <= 0.7 / 0.9
    assert exit.agreement == 1.0
    # Row 1 saves both layers, rows 2 and 3 one each, row 4 none.
    assert exit.layers_saved == pytest.approx(1.0)
    lax = lens.early_exit(judged, agreement=0.5, length=10)
    assert lax.layers_saved > exit.layers_saved
    assert lax.agreement >= 0.5


def test_early_exit_waits_longer_at_the_start():
    """0.1 exp(-tau t / N) raises the threshold of early positions."""
    judged = made([[0.5, 0.5, 0.5, 0.5]], [[True, True, True, True]], [0, 0, 0, 0])
    exit = lens.early_exit(judged, agreement=1.0, length=10)
    assert exit.threshold == 0.0
    assert exit.layers_saved == 1.0
    low = made([[0.05] * 4], [[True] * 4], [0] * 4)
    assert lens.early_exit(low, agreement=1.0, length=10).layers_saved == 0.0
    late = made([[0.05] * 4], [[True] * 4], [50] * 4)
    assert lens.early_exit(late, agreement=1.0, length=10).layers_saved == 1.0


@pytest.mark.parametrize("agreement", [0.0, 1.5, math.nan])
def test_impossible_agreements(agreement):
    judged = made([[0.5] * 4], [[True] * 4], [0] * 4)
    with pytest.raises(GramianError, match="agreement"):
        lens.early_exit(judged, agreement=agreement)


def test_prompts_end_with_the_network_itself(opened, moments):
    casts = lens.solve(opened, moments)
    reading = lens.read_prompt(opened, casts, "w1 w2 w3", top=4)
    assert len(reading.tokens) == 3
    assert len(reading.cast) == len(reading.identity) == 4 * 3
    ids = opened.tokenizer("w1 w2 w3", return_tensors="pt").input_ids
    with torch.no_grad():
        full = opened.model(ids).logits[0, -1].softmax(-1).topk(4)
    last = reading.cast[-1]
    assert last.site == "final"
    assert last.tokens == tuple(opened.tokenizer.decode([int(i)]) for i in full.indices)
    assert last.probabilities == pytest.approx(full.values.tolist(), rel=1e-5)


def test_prompts_that_cannot_be_read(opened, moments):
    casts = lens.solve(opened, moments)
    with pytest.raises(GramianError, match="no tokens"):
        lens.read_prompt(opened, casts, "")
    with pytest.raises(GramianError, match="top=0"):
        lens.read_prompt(opened, casts, "w1", top=0)


def test_a_replaced_branch_equals_the_network_with_that_matrix(opened, moments, fresh):
    """Write the cast of an MLP by hand into a forward pass and compare one layer's score."""
    casts = lens.solve(opened, moments, target="mlp")
    packing = lens.unseen(opened, moments, fresh, tokens=200, length=32)
    scores = lens.judge_branches(opened, casts, packing, rule=moments.recipe.rows)
    assert [score.site for score in scores] == [f"{i}.mlp_in" for i in range(3)]
    layer = opened.model.model.layers[1]
    agreed: dict[str, list[torch.Tensor]] = {"cast": [], "dropped": []}
    for batch in packing:
        keep = batch.mask.clone()
        keep[:, 0] = False
        with torch.no_grad():
            whole = opened.model(batch.ids, attention_mask=batch.mask.long()).logits[keep]
        for name in agreed:
            real = layer.mlp.forward
            layer.mlp.forward = (
                (lambda x: casts["1.mlp_in"].map(x.double()).float())
                if name == "cast"
                else torch.zeros_like
            )
            try:
                with torch.no_grad():
                    other = opened.model(batch.ids, attention_mask=batch.mask.long()).logits[keep]
            finally:
                layer.mlp.forward = real
            agreed[name].append((other.argmax(-1) == whole.argmax(-1)).double())
    assert scores[1].agreement == pytest.approx(float(torch.cat(agreed["cast"]).mean()))
    assert scores[1].agreement_dropped == pytest.approx(float(torch.cat(agreed["dropped"]).mean()))
    with pytest.raises(GramianError, match="attn or mlp"):
        lens.judge_branches(opened, lens.solve(opened, moments), packing, rule=moments.recipe.rows)
