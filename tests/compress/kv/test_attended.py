"""Sink rows weigh what attention makes of them."""

from __future__ import annotations

import pytest
import torch

from gramian.compress import kv
from gramian.compress.kv.attended import attended
from gramian.compress.kv.cutting import How, cuts
from gramian.compress.kv.layers import AttentionLayer
from gramian.data import Packing, documents
from gramian.errors import GramianError
from gramian.moments import Moments, RowRule
from gramian.networks import capture
from gramian.networks.draft import Draft
from tests import tiny
from tests.compress.narrowed import PACKED, moments_of, opened


def rows_and_sinks(checkpoint, site):
    """Rows of train and select (n, d), and whether each is the first of its window."""
    rows, first = [], []
    docs = documents(tiny.texts(300))
    for batch in Packing(docs, checkpoint.tokenizer, rows=256, **PACKED):
        if batch.fold == "report":
            continue
        seen = capture(checkpoint.model, checkpoint.blueprint, [site], batch.ids, batch.mask)
        start = torch.zeros_like(batch.mask, dtype=torch.bool)
        start[:, 0] = True
        rows.append(seen.rows[site][batch.mask].double())
        first.append(start[batch.mask])
    return torch.cat(rows), torch.cat(first)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_they_are_the_moments_of_weighted_rows(tmp_path, share):
    checkpoint = opened(tmp_path / "in")
    moments = moments_of(checkpoint, kv, rule=RowRule(factor=None))
    rows, first = rows_and_sinks(checkpoint, "1.attn_in")
    others, sinks = int((~first).sum()), int(first.sum())
    weight = torch.ones(len(rows), dtype=torch.float64)
    weight[first] = share / (1 - share) * others / sinks
    expected = Moments.from_rows(rows, weight)
    found = attended(moments, "1.attn_in", share)
    assert found.count == pytest.approx(expected.count)
    assert weight[first].sum() / weight.sum() == pytest.approx(share)
    torch.testing.assert_close(found.mean, expected.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.scatter, expected.scatter, rtol=1e-4, atol=1e-3)


def test_without_a_share_or_without_sinks_every_row_counts_once(tmp_path):
    checkpoint = opened(tmp_path / "in")
    moments = moments_of(checkpoint, kv)
    plain = moments.moments("1.attn_in", fold=("train", "select"), sinks=True)
    torch.testing.assert_close(attended(moments, "1.attn_in", None).scatter, plain.scatter)
    none = moments_of(checkpoint, kv, rule=RowRule(first=False, factor=None))
    plain = none.moments("1.attn_in", fold=("train", "select"), sinks=True)
    torch.testing.assert_close(attended(none, "1.attn_in", 0.5).scatter, plain.scatter)


def test_values_of_sinks_survive_a_cut_when_they_weigh(tmp_path):
    checkpoint = opened(tmp_path / "in")
    moments = moments_of(checkpoint, kv, rule=RowRule(factor=None))
    rows, first = rows_and_sinks(checkpoint, "1.attn_in")
    made = AttentionLayer.of(Draft.of(checkpoint), 1, None).made("v")
    values = made(rows[first])
    lost = []
    for share in (None, 0.2, 0.8):
        cut = cuts(checkpoint, moments, How("palu", "joint", "plain", False, share))[3]
        lost.append(float((cut.map((6,))(values) - values).square().sum()))
    assert lost == sorted(lost, reverse=True)
    assert lost[2] < 0.8 * lost[0]


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_what_it_refuses(share):
    with pytest.raises(GramianError, match="expected a share from 0"):
        How("palu", "joint", "read", False, share)
