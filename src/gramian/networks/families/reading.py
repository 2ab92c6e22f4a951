"""From a table and a model's parameters to a blueprint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from gramian.networks.blueprint import Blueprint
from gramian.networks.families.layer import LayerReading
from gramian.networks.families.parameters import Parameters
from gramian.networks.families.shape import Family, Stack
from gramian.networks.parts import Matrix, Norm, Tower, Writer


def read(family: Family, config: Any, model: nn.Module, model_type: str) -> Blueprint:
    """Resolve a family's names against the parameters of one model.

    Raises
    ------
    GramianError : a part that the table names is missing.
    """
    parameters = Parameters.of(model, model_type)
    towers = tuple(_TowerReading(parameters, stack, config).tower() for stack in family.towers)
    head = next((tower.head for tower in towers if tower.head), None)
    return Blueprint(
        model_type=model_type,
        towers=_with_cross_readers(towers),
        main_name=family.main,
        head=head,
        tied=head is not None and bool(getattr(config, "tie_word_embeddings", False)),
    )


@dataclass(frozen=True)
class _TowerReading:
    parameters: Parameters
    stack: Stack
    config: Any

    def tower(self) -> Tower:
        stack, parameters = self.stack, self.parameters
        path = parameters.inside(stack.layers)
        layers = parameters.module(path)
        prefix = f"{stack.name}." if stack.name else ""
        embeddings = tuple(
            name for name in map(parameters.inside, stack.embeddings) if name in parameters.shapes
        )
        width = parameters.shape(embeddings[-1] if embeddings else stack.embeddings[0])[-1]
        reading = LayerReading(parameters, stack, self.config, width, prefix)
        head = self.head()
        after = tuple(
            parameters.matrix(name, "out_in")
            for name in stack.after
            if f"{name}.weight" in parameters.shapes
        )
        final = parameters.optional(stack.final_norm)
        final_norm = None
        if final is not None:
            readers = ((head,) if head else ()) + after
            final_norm = parameters.norm(f"{prefix}final", final, stack.norm, readers)
        embed = "" if stack.embed is None else parameters.inside(stack.embed)
        alone = None if stack.alone is None else parameters.inside(stack.alone)
        for module in (embed, alone):
            if module:
                parameters.module(module)
        return Tower(
            name=stack.name,
            width=width,
            vocabulary=self.vocabulary(),
            layers=tuple(
                reading.layer(i, f"{path}.{i}")
                for i in range(len(layers))  # type: ignore[arg-type]
            ),
            layers_path=path,
            depth_key=stack.depth_key,
            embed=embed,
            embeddings=embeddings,
            entry=tuple(
                Writer(self.entry(parameters.inside(name)), f"{prefix}embed", None)
                for name in stack.entry
            ),
            entry_norms=tuple(
                parameters.norm(
                    f"{prefix}entry", parameters.inside(name), stack.norm, (), place="stream"
                )
                for name in stack.entry_norms
            ),
            final_norm=final_norm,
            head=head,
            causal=stack.causal,
            after=after,
            pooled=stack.pooled,
            alone=alone,
            closed=stack.closed,
            inner_key=stack.inner_key,
            heads_key=stack.heads_key,
        )

    def vocabulary(self) -> int:
        """Rows of the token table; 0 where there is none."""
        table = self.stack.tokens
        return 0 if table is None else self.parameters.shape(self.parameters.inside(table))[0]

    def entry(self, path: str) -> Matrix:
        dimensions = len(self.parameters.shape(f"{path}.weight"))
        return self.parameters.matrix(path, "out_in" if dimensions == 2 else "conv")

    def head(self) -> Matrix | None:
        """The language-model head; None for a base model that is opened without one."""
        known = (name for name in self.stack.head if f"{name}.weight" in self.parameters.shapes)
        name = next(known, None)
        return None if name is None else self.parameters.matrix(name, "out_in")


def _with_cross_readers(towers: tuple[Tower, ...]) -> tuple[Tower, ...]:
    """The norm at the end of an encoder is read by the cross-attention of the decoder."""
    keys = tuple(m for tower in towers for layer in tower.layers for m in layer.cross_readers)
    if not keys:
        return towers
    encoder = towers[0]
    assert encoder.final_norm is not None
    norm: Norm = replace(encoder.final_norm, readers=keys)
    return (replace(encoder, final_norm=norm), *towers[1:])
