"""The words that a table is written in: branches, stacks of layers, families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gramian.networks.parts import Layout, NormKind


@dataclass(frozen=True)
class Branch:
    """One branch of a layer, from what reads the stream to what is added to it.

    Paths are relative to the layer. ``readers`` of an attention are q, k and v, or one matrix
    that holds all three.
    """

    kind: Literal["attn", "xattn", "mlp"]
    readers: tuple[str, ...]
    writer: str
    norm: str | None = None
    """Of the stream, before the readers; a branch with the norm of an earlier one shares it."""
    branch_norm: str | None = None
    """Of the branch's output, before it is added."""
    stream_norm: str | None = None
    """Of the stream, after the addition (post-LN)."""
    inner_norms: tuple[str, ...] = ()
    module: str | None = None
    """The module whose output is added, where the writer is no module (fused experts)."""
    experts: tuple[str, ...] = ()
    """Which of the readers (and the writer) are one 3-D tensor for all experts."""
    flag: str | None = None
    layout: Layout | None = None
    split: Literal["blocks", "groups"] = "blocks"
    """How one matrix holds q, k and v: one after another, or so for every group of heads that
    shares a key."""
    overwritten: bool = False
    """Whether the layer adds into the writer's output in place."""


@dataclass(frozen=True)
class Stack:
    """A tower: its layers and what is around them. Paths are relative to the base model."""

    branches: tuple[Branch | tuple[Branch, ...], ...]
    """In order; where layers differ, the forms that a branch can have (a layer has one)."""
    name: str = ""
    layers: str = "layers"
    embed: str | None = "embed_tokens"
    """The module that makes the embeddings; None where that is done outside of any."""
    embeddings: tuple[str, ...] = ("embed_tokens.weight",)
    """Parameters with rows that are added to the stream; one that a model lacks is left out."""
    entry: tuple[str, ...] = ()
    entry_norms: tuple[str, ...] = ()
    final_norm: str | None = "norm"
    head: tuple[str, ...] = ("lm_head",)
    """Relative to the model itself; the first of these names that it has."""
    after: tuple[str, ...] = ()
    """What else reads the end of the tower, relative to the model; what it lacks is left out."""
    pooled: bool = False
    depth_key: str = "num_hidden_layers"
    heads_key: str = "num_attention_heads"
    inner_key: str = "intermediate_size"
    norm: NormKind = "rms"
    layout: Layout = "out_in"
    parallel: bool = False
    causal: bool = True
    alone: str | None = None
    """The module that runs this tower on token ids, in a network with several."""
    closed: bool = True
    tokens: str | None = "embed_tokens.weight"
    """The token table, in the stream or before it; None for a tower that reads no tokens."""


@dataclass(frozen=True)
class Family:
    """How one model family is opened and what its towers are."""

    towers: tuple[Stack, ...]
    auto: str = "AutoModelForCausalLM"
    """The class of transformers that opens it."""
    main: str = ""
    """The tower that a network is read by when none is named: the one that reads text."""
    padded_positions: bool = False
    """Whether positions are counted from behind the padding id: the table has rows to spare."""


Table = Family | Callable[[Any], Family]
"""A family, or how to tell it from the configuration."""
