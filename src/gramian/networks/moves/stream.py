"""What the moves of the whole residual stream ask of a network before they touch it."""

from __future__ import annotations

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.maps import LinearMap
from gramian.networks.blueprint import Matrix, Norm
from gramian.networks.draft import Draft, Lazy
from gramian.networks.moves.fold_norm import gain_of
from gramian.networks.moves.weights import applied, fold_inputs, fold_outputs


def require_closed(draft: Draft, what: str) -> None:
    """Raise unless all that writes into the stream is known as matrices and embeddings."""
    if not draft.blueprint.main.closed:
        raise GramianError(
            f"{what}: something other than matrices and embeddings writes into the residual "
            f"stream of this {draft.blueprint.model_type} network"
        )


def require_readers(draft: Draft, what: str) -> None:
    """Raise unless matrices read all that leaves the stream, so that its basis is private."""
    if draft.blueprint.main.final_norm is None or draft.blueprint.head is None:
        raise GramianError(
            f"{what}: the residual stream of this {draft.blueprint.model_type} network is its "
            "output, and no matrix reads it to make up for the change"
        )


def require_uniform_gains(draft: Draft) -> None:
    """Raise unless every norm of the stream multiplies all features alike.

    RMSNorm divides by a length, which an orthogonal map keeps; a gain that differs between
    features is one of the old basis.
    """
    for norm in draft.blueprint.stream_norms():
        gain = gain_of(norm, draft.tensor(norm.weight))
        if bool((gain == gain[0]).all()):
            continue
        if norm.readers:
            raise GramianError(
                f"norm {norm.name!r} has a gain that differs between features; put "
                f"FoldNorm({norm.name!r}) before this move"
            )
        raise GramianError(
            f"norm {norm.name!r} has a gain that differs between features and its output is "
            f"{'added to' if norm.place == 'branch' else 'part of'} the residual stream, so no "
            f"matrix can take the gain: this {draft.blueprint.model_type} network has no free basis"
        )


def map_embeddings(draft: Draft, linear: LinearMap) -> Draft:
    """Apply a linear map to every row of every embedding; a tied head keeps its own table."""
    changed: dict[str, Lazy] = {}
    for name in draft.blueprint.embeddings:
        changed[name] = _rows(linear, draft.tensors[name])
    return draft.with_tensors(changed)


def map_writers(draft: Draft, linear: LinearMap, place: str) -> Draft:
    """Fold a linear map into every matrix that writes into the stream."""
    for writer in draft.blueprint.stream_writers():
        draft = fold_outputs(draft, writer.matrix, linear, place)
    return draft


def map_readers(draft: Draft, linear: LinearMap, place: str) -> Draft:
    """Fold a linear map into every matrix that reads the stream; a tied head follows its table."""
    for reader in draft.blueprint.stream_readers():
        if not is_tied_head(draft, reader.matrix):
            draft = fold_inputs(draft, reader.matrix, linear, place)
    return draft


def map_shifts(draft: Draft, linear: LinearMap) -> Draft:
    """Apply a linear map to the biases of the stream's norms."""
    norms: tuple[Norm, ...] = draft.blueprint.stream_norms()
    names = [norm.bias for norm in norms if norm.bias is not None and norm.bias in draft.tensors]
    return draft.with_tensors({name: _rows(linear, draft.tensors[name]) for name in names})


def is_tied_head(draft: Draft, matrix: Matrix) -> bool:
    """Whether a matrix is the token table under another name."""
    head = draft.blueprint.head
    return draft.blueprint.tied and head is not None and matrix.weight == head.weight


def keeps_mean(linear: LinearMap, *, tolerance: float = 1e-6) -> bool:
    """Whether the map takes the vector of ones to itself or to its negative, so that subtracting
    the mean before or after it is the same."""
    ones = torch.ones(linear.in_features, dtype=torch.float64, device=linear.device)
    image = linear.to(dtype=torch.float64)(ones)
    return min(float((image - s * ones).abs().max()) for s in (1.0, -1.0)) <= tolerance


def _rows(linear: LinearMap, old: Lazy) -> Lazy:
    def mapped() -> Tensor:
        return applied(linear, old())

    return mapped
