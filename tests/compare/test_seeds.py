"""The headline of arXiv 1905.00414 in small: two training runs of one network, matched by CKA.

Canonical correlations are invariant to every invertible map, so wide early layers, of which the
rows are barely more than the dimensions, correlate with anything; CKA is not fooled.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from gramian.compare import compare
from gramian.moments import Partner, RowRule
from tests.compare.sets import RECIPE, set_of

BLOCKS = ((8, 1), (16, 2), (32, 2))
"""Channels and stride of blocks of two convolutions; digits are 8 x 8."""


def images() -> tuple[Tensor, Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(y)


def trained(seed: int, x: Tensor, y: Tensor, epochs: int = 8) -> dict[str, Tensor]:
    """The output of every block of a small network trained on digits, one row per image."""
    torch.manual_seed(seed)
    channels, blocks = 1, []
    for width, stride in BLOCKS:
        convolutions = []
        for step in (stride, 1):
            convolutions += [
                nn.Conv2d(channels, width, 3, padding=1, stride=step, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            channels = width
        blocks.append(nn.Sequential(*convolutions))
    head = nn.Linear(channels, 10)
    parameters = [p for part in (*blocks, head) for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=4e-3)
    steps = epochs * -(-len(x) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)

    def run(rows: Tensor) -> tuple[list[Tensor], Tensor]:
        outputs = []
        for block in blocks:
            rows = block(rows)
            outputs.append(rows)
        return outputs, head(rows.mean((2, 3)))

    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=order).split(128):
            loss = nn.functional.cross_entropy(run(x[index])[1], y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    for block in blocks:
        block.eval()
    with torch.no_grad():
        outputs, logits = run(x)
    assert float((logits.argmax(1) == y).float().mean()) > 0.97  # it has learned something
    return {f"{i}.out": output.flatten(1) for i, output in enumerate(outputs)}


@pytest.fixture(scope="module")
def two_runs():
    x, y = images()
    rows = {
        f"{name}:{site}": output
        for seed, name in enumerate("ab")
        for site, output in trained(seed, x, y).items()
    }
    partner = Partner("b", "ef" * 32, {}, "cd" * 32, "none", False, RowRule(), "tokens")
    between = [(a, b) for a in rows for b in rows if a < b and a[0] != b[0]]
    return set_of(rows, between, recipe=replace(RECIPE, partner=partner))


def matched(matrix) -> list[bool]:
    return [best.site[2:] == best.match[2:] for best in matrix.best()]


def test_layers_are_matched_across_seeds_by_cka_and_not_by_cca(two_runs):
    found = compare(two_runs, measures=["cka", "cca"])
    cka, cca = found.matrix("cka"), found.matrix("cca")
    assert matched(cka) == [True] * 3
    assert matched(cca) == [False] * 3
    # the same looking from the other run
    assert cka.values.argmax(0).tolist() == [0, 1, 2]
    assert all(cca.values.argmax(0) != torch.arange(3))
    # by more than the standard error in every case
    for i, row in enumerate(cka.values):
        second = float(torch.cat([row[:i], row[i + 1 :]]).max())
        assert float(row[i]) - second > float(cka.errors[i, i])
    assert float(cka.values.diagonal().min()) > 0.8
    assert any("by chance alone" in warning for warning in found.warnings)
