"""What a written checkpoint computes, measured on the checkpoint as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint, fingerprint, state


@dataclass(frozen=True)
class Certificate:
    """Measured facts about a new checkpoint. Outputs are logits, or the last hidden states of a
    network without a head."""

    reference_error: float
    """Largest output difference from the source with the moves made by hooks, as a share of the
    largest absolute output."""
    tolerance: float
    change: float
    """Largest output difference from the source as it was, as a share of its largest output."""
    agreement: float
    """Share of probe positions at which the largest output is the source's."""
    changed: tuple[str, ...]
    """Tensors whose bytes differ from the source's tensor of the same name, or that are new."""
    removed: tuple[str, ...]
    parameters: int
    parameters_before: int
    bytes: int
    """On disk, all shards."""
    bytes_before: int
    """Of the source's tensors in the dtype that was written."""
    loads_in: Mapping[str, str]
    """Program -> what was tried there, or what is expected and why."""

    def __str__(self) -> str:
        return (
            f"Certified: outputs within {self.reference_error:.1e} of the intended network "
            f"(allowed {self.tolerance:.0e}) and {self.change:.1e} of the source, first choices "
            f"{self.agreement:.1%} the same; {len(self.changed)} tensors changed or added, "
            f"{len(self.removed)} removed; {self.parameters:,} parameters "
            f"({self.parameters_before:,} before), {self.bytes:,} bytes on disk "
            f"({self.bytes_before:,} before)\n"
            + "\n".join(f"  {where}: {how}" for where, how in self.loads_in.items())
        )


@dataclass(frozen=True)
class Outputs:
    """What the probe gave: the source, the intended network, the written one."""

    source: Tensor
    intended: Tensor
    written: Tensor


def certificate(
    source: Checkpoint,
    folder: Path,
    tensors: Mapping[str, Tensor],
    outputs: Outputs,
    *,
    drift: float,
    tolerance: float,
    loads_in: Mapping[str, str],
) -> Certificate:
    """Compare what was written with what was intended, and count what it is made of.

    ``drift`` is what the stages before the last one already differed by.

    Raises
    ------
    GramianError : the outputs differ by more than ``tolerance``, or are not finite.
    """
    error = drift + difference(outputs.written, outputs.intended)
    require_within(error, tolerance)
    before = source.fingerprints
    changed = sorted(n for n, tensor in tensors.items() if before.get(n) != fingerprint(tensor))
    old = state(source.model).values()
    same = outputs.written.argmax(-1) == outputs.source.argmax(-1)
    return Certificate(
        reference_error=error,
        tolerance=tolerance,
        change=difference(outputs.written, outputs.source),
        agreement=float(same.double().mean()),
        changed=tuple(changed),
        removed=tuple(sorted(set(before) - set(tensors))),
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        parameters_before=sum(tensor.numel() for tensor in old),
        bytes=sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        bytes_before=sum(tensor.nbytes for tensor in old),
        loads_in=dict(loads_in),
    )


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest absolute difference as a share of the largest absolute expected value."""
    return float((found - expected).abs().max() / expected.abs().max())


def require_within(error: float, tolerance: float) -> None:
    """Raise unless the error is a number within the tolerance."""
    if not error <= tolerance:
        raise GramianError(
            f"the written checkpoint differs from the intended network by {error:.2e} of its "
            f"largest output, more than the tolerance of {tolerance:.0e}; nothing was kept"
        )


def outputs_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits, or the last hidden states where there is no head; in float64."""
    arguments: dict[str, Any] = {"input_ids": ids}
    if hasattr(model, "generate") and getattr(model.config, "use_cache", None) is not None:
        arguments["use_cache"] = False
    with torch.no_grad():
        result: Any = model(**arguments)
    found = result.logits if hasattr(result, "logits") else result.last_hidden_state
    outputs: Tensor = found.double()
    return outputs


def default_tolerance(dtype: torch.dtype) -> float:
    """1e-4, or 16 units of rounding where the written numbers are coarser."""
    return max(1e-4, 16 * torch.finfo(dtype).eps)


def probe_ids(checkpoint: Checkpoint, *, batch: int = 2, length: int = 48) -> Tensor:
    """Seeded random token ids, no longer than the network reads."""
    longest = checkpoint.positions or length
    generator = torch.Generator().manual_seed(0)
    shape = (batch, min(length, longest))
    return torch.randint(checkpoint.blueprint.vocabulary, shape, generator=generator)
