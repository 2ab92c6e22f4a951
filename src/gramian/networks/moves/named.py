"""A linear that a move speaks of by the name of its weight."""

from __future__ import annotations

from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Matrix
from gramian.networks.draft import Draft
from gramian.networks.structures import structures_of


def require_named(draft: Draft, weight: str) -> None:
    """Raise unless this is a parameter of the network, in one piece."""
    if weight.removesuffix(".weight") in structures_of(draft.config):
        raise GramianError(
            f"{weight} is stored as factors already; give every linear one form, once"
        )
    if weight not in draft.tensors:
        raise GramianError(
            f"no parameter {weight!r} in this {draft.blueprint.model_type} network; "
            "expected the weight of a linear, as the blueprint's matrices name it"
        )


def matrix_named(draft: Draft, weight: str) -> Matrix:
    """The matrix of the residual stream's readers and writers that has this weight.

    Raises
    ------
    GramianError : none has.
    """
    plan = draft.blueprint
    matrices = [reader.matrix for reader in plan.stream_readers()]
    matrices += [writer.matrix for writer in plan.stream_writers()]
    found = next((matrix for matrix in matrices if matrix.weight == weight), None)
    if found is None:
        raise GramianError(
            f"{weight!r} is not a matrix of this {plan.model_type} network that reads or writes "
            "the residual stream"
        )
    return found


def linear_shape(module: nn.Module, name: str) -> tuple[int, int]:
    """(out, in) of a linear."""
    from transformers.pytorch_utils import Conv1D

    if isinstance(module, nn.Linear):
        return (module.out_features, module.in_features)
    if isinstance(module, Conv1D):
        wide, high = module.weight.shape
        return (int(high), int(wide))
    raise GramianError(
        f"{name} belongs to a {type(module).__name__}, expected a linear: the weights of fused "
        "experts, routers and embeddings are not replaced"
    )
