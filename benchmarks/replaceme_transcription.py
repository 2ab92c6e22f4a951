"""The published steps of ReplaceMe (arXiv 2505.02819), least squares, one after the other.

For every number of blocks anew: a pass over the text for the angular distance of the stream
before and after every window of blocks, on the last token of each sequence; a pass for the rows
of the MLP output ``M``, of the stream after attention ``Y`` in the block before the window, and of
the stream ``L`` after it; ``T = (M^T M)^-1 M^T (L - Y)`` in float64, multiplied into the MLP's last
matrix. What ``gramian compress depth`` is measured against. Not part of the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn


def choose(model: Any, windows: Iterable[Tensor], count: int) -> int:
    """The block ``i`` after which the ``count`` blocks whose window is the nearest begin.

    The distance of ``H_{i+1}`` and ``H_{i+1+count}`` is ``arccos(cos) / pi``, a mean over windows.
    """
    blocks = model.model.layers
    total = torch.zeros(len(blocks) - count)
    seen: list[Tensor] = []
    handles = [
        block.register_forward_hook(lambda _m, _a, out: seen.append(_hidden(out)[:, -1].double()))
        for block in blocks
    ]
    with torch.no_grad():
        for ids in windows:
            seen.clear()
            model.model(input_ids=ids, use_cache=False)
            for i in range(len(total)):
                cosine = torch.nn.functional.cosine_similarity(seen[i], seen[i + count], dim=-1)
                total[i] += float((cosine.clamp(-1, 1).arccos() / torch.pi).sum())
    for handle in handles:
        handle.remove()
    return int(total.argmin())


def solve(model: Any, windows: Iterable[Tensor], block: int, count: int) -> Tensor:
    """``T`` (d, d) in the convention of rows, ``M T`` for what the blocks after ``block`` give."""
    blocks = model.model.layers
    seen: dict[str, Tensor] = {}

    def keep(name: str):
        def hook(_module: nn.Module, _args: Any, out: Any) -> None:
            seen[name] = _hidden(out).flatten(0, -2).double()

        return hook

    handles = [
        blocks[block].mlp.register_forward_hook(keep("mlp")),
        blocks[block].register_forward_hook(keep("after")),
        blocks[block + count].register_forward_hook(keep("end")),
    ]
    width = model.config.hidden_size
    gram, cross = torch.zeros(2, width, width, dtype=torch.float64)
    with torch.no_grad():
        for ids in windows:
            model.model(input_ids=ids, use_cache=False)
            # L - Y = H_end + M - H_{i+1}
            target = seen["end"] + seen["mlp"] - seen["after"]
            gram += seen["mlp"].T @ seen["mlp"]
            cross += seen["mlp"].T @ target
    for handle in handles:
        handle.remove()
    return torch.linalg.inv(gram) @ cross


def removed(model: Any, block: int, count: int, step: Tensor) -> dict[str, Tensor]:
    """The one weight that changes; the ``count`` blocks after ``block`` go."""
    name = f"model.layers.{block}.mlp.down_proj.weight"
    weight = model.get_parameter(name)
    return {name: (step.T @ weight.double()).to(weight.dtype)}


def _hidden(output: Any) -> Tensor:
    return output[0] if isinstance(output, tuple) else output
