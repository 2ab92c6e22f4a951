"""One saved tiny checkpoint per family for the whole session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gramian.networks import Checkpoint
from gramian.networks import open as open_checkpoint
from tests import tiny


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Checkpoint]:
    """``checkpoint("gpt2")``: the tiny checkpoint of a family, made once."""
    made: dict[str, Path] = {}

    def get(family: str = "llama") -> Checkpoint:
        if family not in made:
            made[family] = tiny.save(tmp_path_factory.mktemp(family), family)
        return open_checkpoint(made[family])

    return get
