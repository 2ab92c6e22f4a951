"""Tiny networks with their moments, and a network whose stream needs few directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from gramian.compress import slicing
from gramian.data import documents
from gramian.maps import Dense
from gramian.moments import MomentSet
from gramian.networks import Checkpoint, FoldNorm, FoldStream, Plan, apply, collect
from gramian.networks import open as open_checkpoint
from tests import tiny

WIDTH = 32


@dataclass(frozen=True)
class Case:
    folder: Path
    moments: MomentSet

    @property
    def checkpoint(self) -> Checkpoint:
        return open_checkpoint(self.folder)


def gathered(checkpoint: Checkpoint, text: Path, *, tokens: int = 2000, **settings: Any):
    # Some model types are read with a tokenizer class of their own, which knows no such words.
    checkpoint.__dict__["tokenizer"] = tiny.tokenizer()
    return collect(
        checkpoint,
        documents(text),
        slicing.needs(checkpoint),
        tokens=tokens,
        length=32,
        batch_rows=256,
        precision="float64",
        **settings,
    )


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.jsonl"
    lines = [json.dumps({"text": text}) for text in tiny.texts(250)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def case(tmp_path_factory, corpus) -> Callable[..., Case]:
    """``case("llama", tie_word_embeddings=True)``: made once."""
    made: dict[str, Case] = {}

    def get(family: str = "llama", **changes: Any) -> Case:
        key = f"{family}{changes}"
        if key not in made:
            folder = tiny.save(tmp_path_factory.mktemp(family), family, **changes)
            made[key] = Case(folder, gathered(open_checkpoint(folder), corpus))
        return made[key]

    return get


@pytest.fixture(scope="session")
def planted(tmp_path_factory, corpus) -> Callable[..., Case]:
    """A network of the family whose stream lies in 16 of its 32 directions."""
    made: dict[str, Case] = {}

    def get(family: str = "llama", **changes: Any) -> Case:
        if family not in made:
            base = tmp_path_factory.mktemp(f"planted-{family}")
            source = open_checkpoint(tiny.save(base / "a", family, **changes))
            draw = torch.randn(
                WIDTH, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64
            )
            basis = torch.linalg.qr(draw).Q
            norms = [FoldNorm(norm.name) for norm in source.blueprint.stream_norms()]
            project = FoldStream(Dense(basis @ basis.T), "writers")
            apply(source, Plan.of(source, *norms, project), base / "b")
            made[family] = Case(base / "b", gathered(open_checkpoint(base / "b"), corpus))
        return made[family]

    return get
