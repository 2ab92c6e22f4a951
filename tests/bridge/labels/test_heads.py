"""Label heads against argmax, plain products and a small hierarchy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.bridge.labels import label_head
from gramian.errors import GramianError

G = np.random.default_rng(0)
P = G.dirichlet(np.ones(6), 50)
SEEN, LABELS = G.normal(size=(6, 4)), G.normal(size=(9, 4))


def test_equal_distances_are_argmax_and_certainty_is_its_class() -> None:
    head = label_head("loki", distances=1 - np.eye(6))
    np.testing.assert_array_equal(head.predict(P), P.argmax(1))
    for head in (label_head("loki", observed=SEEN), label_head("conse", observed=SEEN, top=3)):
        np.testing.assert_array_equal(head.predict(np.eye(6)), np.arange(6))


def test_conse_is_a_product_and_its_top_one_is_the_embedding() -> None:
    head = label_head("conse", observed=SEEN, labels=LABELS)
    np.testing.assert_allclose(head.values(P), P @ SEEN, atol=1e-14)
    np.testing.assert_array_equal(
        label_head("conse", observed=SEEN, labels=LABELS, top=1).values(P), SEEN[P.argmax(1)]
    )
    cosine = (P @ SEEN) @ (LABELS / np.linalg.norm(LABELS, axis=1, keepdims=True)).T
    np.testing.assert_array_equal(head.predict(P), cosine.argmax(1))


def test_names_an_unseen_parent_of_two_leaves() -> None:
    # observed leaves a, b under p and c under q; labels a, b, c, p, q; lengths of paths
    distances = [[0, 2, 4, 1, 3], [2, 0, 4, 1, 3], [4, 4, 0, 3, 1]]
    head = label_head("loki", distances=distances)
    assert head.predict([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]).tolist() == [3, 2]


def test_fuses_where_it_is_linear() -> None:
    for head in (
        label_head("loki", observed=SEEN, labels=LABELS),
        label_head("conse", observed=SEEN),
    ):
        np.testing.assert_allclose(head.map(torch.tensor(P)).numpy(), head.values(P), atol=1e-13)
    with pytest.raises(GramianError, match="not linear"):
        _ = label_head("conse", observed=SEEN, top=2).map


def test_refusals() -> None:
    for options, match in (
        ({"rule": "mean"}, "expected 'conse'"),
        ({"rule": "conse", "distances": np.eye(3)}, "observed embeddings"),
        ({"rule": "loki", "distances": -np.eye(3)}, "below 0"),
        ({"rule": "conse", "observed": np.zeros((3, 2))}, "no direction"),
        ({"rule": "conse", "observed": SEEN, "top": 9}, "1 to 6"),
    ):
        with pytest.raises(GramianError, match=match):
            label_head(**options)
    with pytest.raises(GramianError, match="at least 0"):
        label_head("conse", observed=SEEN).predict(np.zeros((1, 6)))
