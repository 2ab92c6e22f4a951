"""Monarch projections and products against torch-structured."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from gramian.maps import Monarch
from gramian.solvers import monarch_projection


@pytest.fixture(scope="module")
def peer() -> Iterator[dict[str, ModuleType]]:
    """Its Monarch modules alone: the package itself imports triton, which has no CPU build."""
    made = []
    for name in ("torch_structured", "torch_structured.monarch"):
        spec = importlib.util.find_spec(name)
        if spec is None:
            pytest.skip("torch-structured is not installed")
        package = ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[name] = package
        made.append(name)

    names = ("blockdiag_butterfly_projection", "blockdiag_butterfly_multiply", "low_rank")
    yield {n: importlib.import_module(f"torch_structured.monarch.{n}") for n in names}
    for name in [n for n in sys.modules if n.partition(".")[0] == made[0]]:
        del sys.modules[name]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize(("size", "groups"), [(16, 4), (24, 6), (36, 4)])
def test_projection(peer: dict[str, ModuleType], size: int, groups: int) -> None:
    weight = normal(size, size)
    # There (r, k): groups of inputs, strided groups of outputs.
    project = peer["blockdiag_butterfly_projection"].blockdiag_butterfly_project
    first, second = project(weight, sizes=(size // groups, groups))
    multiply = peer["blockdiag_butterfly_multiply"].blockdiag_butterfly_multiply_reference
    theirs = multiply(torch.eye(size, dtype=torch.float64), first, second).T
    ours = monarch_projection(weight, (groups, size // groups))
    torch.testing.assert_close(ours.to_dense(), theirs, rtol=1e-10, atol=1e-12)


def test_product(peer: dict[str, ModuleType]) -> None:
    left, right, x = normal(4, 9, 6, 1), normal(6, 4, 1, 5), normal(7, 30)
    multiply = peer["blockdiag_butterfly_multiply"].blockdiag_butterfly_multiply_reference
    theirs = multiply(x, right[:, :, 0], left[..., 0])
    torch.testing.assert_close(Monarch(left, right)(x), theirs, rtol=1e-12, atol=1e-12)
