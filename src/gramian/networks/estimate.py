"""What a collection will take: bytes, passes, minutes. Nothing is read but the configuration."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs
from gramian.networks.passes import Passes

DISK_SPEED = 1e9
"""Bytes that a disk is taken to write or read in a second."""


@dataclass(frozen=True)
class Estimate:
    """Costs of one collection."""

    sites: int
    pairs: int
    passes: int
    """Forward passes over the data."""
    mode: str
    why: str
    """Why this mode was chosen."""
    groups: int
    """Groups of needs whose statistics are in memory together."""
    disk_bytes: int
    """Of the result."""
    working_bytes: int | None
    """On disk until the result is complete; None when the number of tokens is not known."""
    memory_bytes: int
    batch_bytes: int
    """Activations of one batch at the wanted sites."""
    forward_operations: int
    statistics_operations: int
    """Per token and pass."""
    minutes: float | None
    """None when the number of tokens is not known beforehand."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.sites} sites and {self.pairs} pairs in {self.passes} "
            f"{'pass' if self.passes == 1 else 'passes'} over the data",
            f"mode     {self.mode}{f': {self.why}' if self.why else ''}",
            f"memory   {self.memory_bytes / 1e6:,.0f} MB of statistics and "
            f"{self.batch_bytes / 1e6:,.0f} MB of activations, above the model",
            f"disk     about {self.disk_bytes / 1e6:,.0f} MB{self._working()}",
            f"work     {self.statistics_operations / 1e6:,.0f} million operations per token beside "
            f"{self.forward_operations / 1e6:,.0f} of the forward pass",
        ]
        if self.minutes is not None:
            lines.append(
                f"time     about {self.minutes:,.1f} minutes (from the speed of one matrix product)"
            )
        return "\n".join(lines)

    def _working(self) -> str:
        if self.working_bytes is None:
            return ", and rows while it is collected"
        if self.working_bytes == 0:
            return ""
        return f", and {self.working_bytes / 1e6:,.0f} MB while it is collected"


def estimate(
    checkpoint: Checkpoint,
    needs: Needs,
    passes: Passes,
    *,
    tokens: int | None,
    batch_rows: int,
) -> Estimate:
    """Costs from the configuration and the measured speed of one matrix product."""
    cost = needs.cost(checkpoint)
    blueprint = checkpoint.blueprint
    widths = max(
        sum(blueprint.site_width(site) for site in group.orders(blueprint))
        for group in passes.groups
    )
    bytes_each = torch.empty(0, dtype=checkpoint.dtype).element_size()
    minutes = None
    if tokens is not None:
        forward = cost.forward_operations * tokens * passes.forwards
        seconds = (forward + cost.operations * tokens) / product_speed(checkpoint.device)
        # What lies on disk is written once and read once.
        minutes = (seconds + 2 * passes.disk / DISK_SPEED) / 60
    carry = passes.carry
    # A symmetric scatter is stored as its lower half.
    return Estimate(
        sites=cost.sites,
        pairs=cost.pairs,
        passes=passes.forwards,
        mode=passes.mode,
        why=passes.why,
        groups=len(passes.groups),
        working_bytes=None if carry is not None and carry.bytes is None else passes.disk,
        disk_bytes=cost.disk_bytes,
        memory_bytes=passes.bytes,
        batch_bytes=widths * batch_rows * bytes_each,
        forward_operations=cost.forward_operations,
        statistics_operations=cost.operations,
        minutes=minutes,
    )


def product_speed(device: str, *, size: int = 1024) -> float:
    """Operations per second of a float32 matrix product on this device."""
    a = torch.ones(size, size, device=device)
    a @ a
    started = time.perf_counter()
    result = a @ a @ a
    float(result[0, 0])
    return 4 * size**3 / (time.perf_counter() - started)
