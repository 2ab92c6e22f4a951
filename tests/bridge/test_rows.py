"""Rows from whatever holds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gramian.bridge.rows import as_matrix
from gramian.errors import GramianError

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def test_arrays_come_back_as_they_are(tmp_path):
    assert as_matrix(ROWS) is ROWS
    np.save(tmp_path / "x.npy", ROWS)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert as_matrix(mapped) is mapped


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_torch(dtype):
    assert np.array_equal(as_matrix(torch.tensor(ROWS, dtype=dtype, requires_grad=True)), ROWS)


def test_lists_and_integers_become_float64():
    for rows in ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], object)):
        assert as_matrix(rows).dtype == np.float64


def test_frames_and_columns_of_vectors():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS, columns=list("abc"))
    assert np.array_equal(as_matrix(frame), ROWS)
    column = pd.Series(list(ROWS))
    assert np.array_equal(as_matrix(column), ROWS)
    assert np.array_equal(as_matrix(column.to_frame()), ROWS)


def test_arrow():
    pa = pytest.importorskip("pyarrow")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 3)
    loose = pa.array([list(map(float, row)) for row in ROWS])
    for rows in (
        fixed,
        loose,
        pa.chunked_array([fixed[:1], fixed[1:]]),
        pa.table({"vector": fixed}),
        pa.table({name: ROWS[:, i] for i, name in enumerate("abc")}),
    ):
        assert np.array_equal(as_matrix(rows), ROWS)
    assert np.array_equal(as_matrix(fixed[2:]), ROWS[2:])
    with pytest.raises(GramianError, match="1 vectors are null"):
        as_matrix(pa.array([[1.0, 2.0], None]))
    with pytest.raises(GramianError, match="different lengths"):
        as_matrix(pa.array([[1.0, 2.0], [1.0]]))


def test_what_is_no_matrix_is_refused():
    with pytest.raises(GramianError, match=r"1 axes, shape \(3,\)"):
        as_matrix(ROWS[0])
    with pytest.raises(GramianError, match="3 wide, expected 5"):
        as_matrix(ROWS, width=5)
    with pytest.raises(GramianError, match="complex"):
        as_matrix(ROWS.astype(complex))
    with pytest.raises(GramianError, match="not numbers"):
        as_matrix(np.array([["a", "b"]]))
    bad = ROWS.copy()
    bad[2, 1] = np.inf
    with pytest.raises(GramianError, match="queries: row 2 holds NaN or infinity"):
        as_matrix(bad, "queries")
    assert as_matrix(bad, finite=False) is bad
