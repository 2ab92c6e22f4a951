"""The published steps of SVD-LLM (arXiv 2403.07378), whitening only, one after the other.

Sums of ``X^T X`` in float32 by hooks, a Cholesky factor in float64, singular values in float32,
and the factor's inverse, for every linear and every size anew: what ``gramian compress rank`` is
measured against. Ranks are the published formula with each matrix's own shape (keys and values of
grouped attention included). Not part of the package.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

Factors = dict[str, tuple[Tensor, Tensor]]


def profile(model: nn.Module, names: Iterable[str], windows: Iterable[Tensor]) -> dict[str, Tensor]:
    """Cholesky factor ``L`` (n, n) of the summed ``X^T X`` of every linear, by name.

    windows : (batch, length) token ids.
    """
    linears = {name: model.get_submodule(name) for name in names}
    sums = {name: torch.zeros(one.in_features, one.in_features) for name, one in linears.items()}

    def watch(name: str):
        def hook(_module: nn.Module, args: tuple[Tensor, ...], _output: Tensor) -> None:
            for rows in args[0].detach().float():
                sums[name] += rows.T @ rows

        return hook

    handles = [one.register_forward_hook(watch(name)) for name, one in linears.items()]
    with torch.no_grad():
        for ids in windows:
            model(input_ids=ids)
    for handle in handles:
        handle.remove()
    return {name: cholesky(total) for name, total in sums.items()}


def cholesky(total: Tensor) -> Tensor:
    """In float64; where that fails, after ``(-lambda_min + 1e-6) I`` was added."""
    second = total.double()
    try:
        return torch.linalg.cholesky(second)
    except RuntimeError:
        smallest = torch.linalg.eigvalsh(second)[0]
        second += (-smallest + 1e-6) * torch.eye(len(second), dtype=torch.float64)
        return torch.linalg.cholesky(second)


def truncate(model: nn.Module, factors: dict[str, Tensor], keep: float) -> Factors:
    """``A`` (m, r) and ``B`` (r, n) for every linear at one size."""
    found: Factors = {}
    for name, lower in factors.items():
        weight = model.get_submodule(name).weight.detach().float()
        m, n = weight.shape
        rank = int(keep * m * n / (m + n))
        scale = lower.float()
        try:
            inverse = torch.linalg.inv(scale)
        except RuntimeError:
            inverse = torch.linalg.inv(scale + 1e-6 * torch.eye(n))
        u, s, v = torch.linalg.svd(weight @ scale, full_matrices=False)
        root = s[:rank].sqrt()
        found[name] = (u[:, :rank] * root, (root[:, None] * v[:rank]) @ inverse)
    return found
