"""Linear layers and the inputs that they read: which weights use how many directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from gramian.errors import GramianError
from gramian.measures import InputBasis, UtilisedRank, energy_rank, unit_rows
from gramian.moments import Moments, MomentSet
from gramian.networks.blueprint import Blueprint, Matrix
from gramian.networks.checkpoint import Checkpoint
from gramian.solvers.spectrum import eigenvalues

INPUTS = {"attn_out": "z", "mlp_out": "mlp_mid", "xattn_out": "xz"}
"""What a writer adds to the stream -> the site that its matrix reads."""


@dataclass(frozen=True)
class LinearInspection:
    """How much of one linear layer the data uses (arXiv 2407.04797)."""

    weight: str
    """Name of the parameter."""
    layer: int
    name: str
    """The module's own name: ``q_proj``."""
    site: str
    """What it reads."""
    inputs: int
    outputs: int
    rows: float
    """Sink rows not among them."""
    input_rank: int
    """``k_S``: principal directions that hold the energy of the input, about its mean."""
    output_rank: int
    """``k_T``: the same of the output."""
    input_rank_with_sinks: int
    """``k_S`` of all rows, about zero: one long row makes it 1, whatever the others do."""
    input_rank_unit_rows: int | None
    """``k_S`` of the kept raw rows at unit length, about their mean; None unless more raw rows
    than inputs were kept."""

    @property
    def rank(self) -> int:
        """The utilised rank, ``min(k_S, k_T)``."""
        return min(self.input_rank, self.output_rank)

    @property
    def utilisation(self) -> float:
        """``rank / min(inputs, outputs)``."""
        return self.rank / min(self.inputs, self.outputs)

    def record(self) -> dict[str, Any]:
        """Every figure as flat JSON values."""
        return {**asdict(self), "rank": self.rank, "utilisation": self.utilisation}


@dataclass(frozen=True)
class LinearLayer:
    """A matrix of the network and where its input is seen."""

    matrix: Matrix
    layer: int
    site: str

    @property
    def name(self) -> str:
        """``q_proj`` of ``model.layers.3.self_attn.q_proj.weight``."""
        return self.matrix.weight.removesuffix(".weight").rpartition(".")[2]


def linear_layers(blueprint: Blueprint) -> tuple[LinearLayer, ...]:
    """Every matrix that reads the residual stream or writes into it, by layer, each once."""
    found: dict[str, LinearLayer] = {}
    for tower in blueprint.towers:
        for layer in tower.layers:
            parts = [(reader.matrix, reader.site) for reader in layer.readers]
            for writer in layer.outputs:
                place, _, kind = writer.site.rpartition(".")
                if kind in INPUTS:
                    parts.append((writer.matrix, f"{place}.{INPUTS[kind]}"))
            for matrix, site in parts:
                found.setdefault(matrix.weight, LinearLayer(matrix, layer.index, site))
    return tuple(found.values())


def readers_of_sites(
    checkpoint: Checkpoint, moments: MomentSet
) -> tuple[dict[str, list[LinearLayer]], list[str]]:
    """Site -> the linear layers that read it, for the sites in the set; and what is left out.

    Raises
    ------
    GramianError : moments of other weights.
    """
    if moments.recipe.weights != checkpoint.digest:
        raise GramianError(
            f"these moments are of {moments.recipe.model} (weights {moments.recipe.weights[:12]}), "
            f"not of {checkpoint.name} (weights {checkpoint.digest[:12]}); collect them on this "
            "model, or leave the model out"
        )
    kept, notes = set(moments.sites), []
    readers: dict[str, list[LinearLayer]] = {}
    experts, absent = 0, 0
    for linear in linear_layers(checkpoint.blueprint):
        if linear.matrix.is_experts:
            experts += 1
        elif linear.site in kept:
            readers.setdefault(linear.site, []).append(linear)
        else:
            absent += 1
    if experts:
        notes.append(
            f"{experts} expert tensors have no utilised rank: the rows that the router sends to "
            "one expert are not kept apart"
        )
    if absent:
        notes.append(
            f"inputs of {counted(absent)} were not collected; collect with --for linears "
            "to see what they use"
        )
    return readers, notes


def inspect_readers(
    linears: Sequence[LinearLayer],
    model: nn.Module,
    basis: InputBasis,
    rows: Moments,
    all_rows: Moments,
    kept_rows: Tensor | None,
    energy: float,
) -> list[LinearInspection]:
    """The utilised rank of every linear layer that reads one site.

    Parameters
    ----------
    basis : the principal directions of ``rows``.
    rows, all_rows : moments of the site without and with its sink rows.
    kept_rows : (k, d) raw rows, if any were kept.
    """
    with_sinks = energy_rank(eigenvalues(all_rows.raw()).clamp_min(0.0), energy)
    unit = None
    if kept_rows is not None and len(kept_rows) > rows.d:
        unit = energy_rank(Moments.from_rows(unit_rows(kept_rows), quartic=False), energy)
    found = []
    for linear in linears:
        used: UtilisedRank = basis.utilised(weight_of(model, linear.matrix), energy)
        found.append(
            LinearInspection(
                weight=linear.matrix.weight,
                layer=linear.layer,
                name=linear.name,
                site=linear.site,
                inputs=used.inputs,
                outputs=used.outputs,
                rows=rows.count,
                input_rank=used.input,
                output_rank=used.output,
                input_rank_with_sinks=with_sinks,
                input_rank_unit_rows=unit,
            )
        )
    return found


def counted(layers: int) -> str:
    """``1 linear layer``, ``2 linear layers``."""
    return f"{layers} linear layer{'' if layers == 1 else 's'}"


def weight_of(model: nn.Module, matrix: Matrix) -> Tensor:
    """The weight (out, in) of a matrix, whichever way round it is stored."""
    weight = model.get_parameter(matrix.weight).detach()
    return weight.T if matrix.inputs_first else weight


def mean_utilisation(linears: Sequence[LinearInspection]) -> float | None:
    """Mean layer utilisation (MLU); None without linear layers."""
    if not linears:
        return None
    return sum(linear.utilisation for linear in linears) / len(linears)


def by_name(linears: Sequence[LinearInspection]) -> Mapping[str, list[LinearInspection]]:
    """The linear layers of each name, in network order."""
    found: dict[str, list[LinearInspection]] = {}
    for linear in linears:
        found.setdefault(linear.name, []).append(linear)
    return found
