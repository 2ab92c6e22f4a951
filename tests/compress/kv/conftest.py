"""Tiny checkpoints with the moments that a cut of their caches is solved from."""

from __future__ import annotations

import pytest

from gramian.compress import kv
from tests.compress.narrowed import moments_of, opened


@pytest.fixture(scope="session")
def collected(tmp_path_factory):
    """``collected("llama")``: a tiny checkpoint and its moments, made once."""
    made = {}

    def get(family="llama", **shape):
        key = (family, *sorted(shape.items()))
        if key not in made:
            checkpoint = opened(tmp_path_factory.mktemp(family), family, **shape)
            made[key] = checkpoint, moments_of(checkpoint, kv)
        return made[key]

    return get
