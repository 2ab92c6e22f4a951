"""What a written checkpoint computes, measured on the checkpoint as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint, fingerprint, state
from gramian.networks.checkpoint import open as open_checkpoint


@dataclass(frozen=True)
class Certificate:
    """Measured facts about a new checkpoint."""

    reference_error: float
    """Largest logit difference from the source with the moves made by hooks, as a share of the
    largest absolute logit."""
    tolerance: float
    changed: tuple[str, ...]
    """Tensors whose bytes differ from the source's tensor of the same name, or that are new."""
    removed: tuple[str, ...]
    parameters: int
    parameters_before: int
    bytes: int
    loads_in: Mapping[str, str]

    def __str__(self) -> str:
        return (
            f"Certified: logits within {self.reference_error:.1e} of the intended network "
            f"(allowed {self.tolerance:.0e}); {len(self.changed)} tensors changed or added, "
            f"{len(self.removed)} removed; {self.parameters:,} parameters "
            f"({self.parameters_before:,} before), {self.bytes:,} bytes on disk; "
            + ", ".join(f"{where}: {how}" for where, how in self.loads_in.items())
        )


def certify(
    source: Checkpoint,
    folder: Path,
    tensors: Mapping[str, Tensor],
    probe: Tensor | None,
    tolerance: float,
) -> Certificate:
    """Open ``folder`` again and compare it with ``source.model``, which computes the reference.

    Raises
    ------
    GramianError : the logits differ by more than ``tolerance``, or are not finite.
    """
    written = open_checkpoint(folder, device=source.device, dtype=source.dtype)
    ids = probe_ids(source) if probe is None else probe
    ids = ids.to(source.device)
    with torch.no_grad():
        expected = source.model(input_ids=ids, use_cache=False).logits.double()
        found = written.model(input_ids=ids, use_cache=False).logits.double()
    error = float((found - expected).abs().max() / expected.abs().max())
    if not error <= tolerance:
        raise GramianError(
            f"the written checkpoint differs from the intended network by {error:.2e} of its "
            f"largest logit, more than the tolerance of {tolerance:.0e}; nothing was kept"
        )
    before = source.fingerprints
    changed = sorted(n for n, tensor in tensors.items() if before.get(n) != fingerprint(tensor))
    return Certificate(
        reference_error=error,
        tolerance=tolerance,
        changed=tuple(changed),
        removed=tuple(sorted(set(before) - set(tensors))),
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        parameters_before=sum(tensor.numel() for tensor in state(source.model).values()),
        bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        loads_in={"transformers": "loaded again and compared"},
    )


def probe_ids(checkpoint: Checkpoint, *, batch: int = 2, length: int = 48) -> Tensor:
    """Seeded random token ids."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(checkpoint.blueprint.vocabulary, (batch, length), generator=generator)
