"""What a network is made of: matrices, norms, taps, layers and towers, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Layout = Literal["out_in", "in_out", "expert_out_in", "expert_in_out", "conv"]
"""How a weight is stored: ``nn.Linear``; ``Conv1D``; one 3-D tensor for all experts, either way
round; a convolution (out, in, ...) whose inputs are patches."""

NormKind = Literal["rms", "rms1p", "layer"]
"""RMSNorm, RMSNorm with a gain of ``1 + weight``, LayerNorm (mean-subtracting, with a bias)."""

NormPlace = Literal["before", "branch", "stream", "inside"]
"""What a norm is applied to: the stream before matrices read it; the output of a branch before
it is added; the stream itself after an addition (post-LN); something inside a branch (q, k)."""


@dataclass(frozen=True)
class Matrix:
    """One weight of the network and what can be done to it."""

    weight: str
    """Parameter name."""
    layout: Layout
    bias: str
    """The name its bias has, or would have."""
    has_bias: bool
    bias_flag: str | None = None
    """The configuration switch that gives this matrix (and its siblings) a bias."""
    fused: tuple[str, ...] = ()
    """The sites that its outputs hold, where one matrix makes several (``q``, ``k``, ``v``)."""
    group: int = 1
    """Query heads that share one head of these outputs (``k`` and ``v`` of grouped attention)."""

    @property
    def inputs_first(self) -> bool:
        """Whether the input axis of the stored weight comes before its output axis."""
        return self.layout in ("in_out", "expert_in_out")

    @property
    def is_experts(self) -> bool:
        """Whether the first axis of the weight (and of its bias) runs over experts."""
        return self.layout.startswith("expert")


@dataclass(frozen=True)
class Norm:
    """A normalisation, its gain (and bias), and the matrices that read its output."""

    name: str
    path: str
    kind: NormKind
    readers: tuple[Matrix, ...]
    """Every matrix that reads the output, of all branches that share the norm. Empty where the
    output is added to the stream, or is the stream, instead of being read by matrices."""
    place: NormPlace = "before"
    shifts: bool = True
    """Whether a LayerNorm has a bias."""

    @property
    def weight(self) -> str:
        return f"{self.path}.weight"

    @property
    def bias(self) -> str | None:
        return f"{self.path}.bias" if self.kind == "layer" and self.shifts else None


@dataclass(frozen=True)
class Reader:
    """A matrix that reads the residual stream, and through which norm."""

    matrix: Matrix
    site: str
    """What it reads: ``12.attn_in``."""
    norm: Norm | None
    """None where it reads the stream as it is (post-LN, post-norm networks)."""


@dataclass(frozen=True)
class Writer:
    """A matrix whose output is added to the residual stream."""

    matrix: Matrix
    site: str
    """What is added: ``12.attn_out``; ``embed`` for what makes the stream in the first place."""
    norm: Norm | None
    """The norm between the matrix and the addition (Gemma, OLMo 2), if any."""


@dataclass(frozen=True)
class Tap:
    """Where a site is seen: the input or output of a module, or some columns of it."""

    path: str
    side: Literal["input", "output"]
    width: int
    columns: tuple[int, int] | None = None
    """Of every one of ``groups`` equal parts of the features; None for all."""
    groups: int = 1
    overwritten: bool = False
    """Whether the network later writes into this very tensor, so that it has to be copied."""
    scale: float = 1.0
    """What the network multiplies it by before it is added."""


@dataclass(frozen=True)
class Layer:
    """One block: its taps by site name, its norms, and what it reads and writes with."""

    index: int
    path: str
    taps: Mapping[str, Tap]
    norms: Mapping[str, Norm]
    """Norms of the stream or of a branch's output: ``attn``, ``mlp`` (before a branch),
    ``attn_out_norm`` (of what is added), ``resid_mid_norm`` (of the stream, post-LN). Branches
    that share one norm have it once, under the name of the first."""
    writers: Mapping[str, Matrix]
    """``attn_out`` and ``mlp_out``: the matrix whose output *is* that site. A branch that is
    normalised again before it is added (Gemma) has no entry: no matrix writes that site."""
    readers: tuple[Reader, ...] = ()
    """All that reads the stream."""
    outputs: tuple[Writer, ...] = ()
    """All that is added to the stream, also through a norm."""
    inner_norms: Mapping[str, Norm] = field(default_factory=dict)
    """Norms that never see the stream: of q and k."""
    parallel: bool = False
    """Whether the branches all read the stream as it enters the layer."""
    cross_readers: tuple[Matrix, ...] = ()
    """Keys and values that read the end of another tower."""


@dataclass(frozen=True)
class Tower:
    """One residual stream from its embeddings to its final norm."""

    name: str
    """Empty for the only tower of a network; else the prefix of its sites."""
    width: int
    vocabulary: int
    """0 for a tower that does not read tokens."""
    layers: tuple[Layer, ...]
    layers_path: str
    depth_key: str
    """The configuration entry that counts the layers, dotted where it is in a part of it."""
    embed: str
    """The module whose output is the site ``embed``; empty where that is ``0.resid_pre``."""
    embeddings: tuple[str, ...]
    """Parameters whose rows (..., width) are added to the stream; a token table comes first."""
    entry: tuple[Writer, ...]
    """Matrices beside the embeddings that make the stream (the patches of an image)."""
    entry_norms: tuple[Norm, ...]
    """Norms of the stream before the first layer."""
    final_norm: Norm | None
    """None where the last layer's output is the tower's (post-LN)."""
    head: Matrix | None
    causal: bool
    after: tuple[Matrix, ...] = ()
    """Matrices beside the head that read the end of the tower (a pooler, a projection)."""
    pooled: bool = False
    """Whether the final norm is applied to one position of a sequence, not to all."""
    alone: str | None = None
    """The module that runs this tower on token ids, where others need more."""
    closed: bool = True
    """Whether embeddings, entry and the layers' writers are all that writes into the stream.
    False where something else does too: a non-linearity over a convolution."""
    inner_key: str = ""
    """The configuration entry that counts the neurons of an MLP; empty where none is known."""
    heads_key: str = ""
    """The configuration entry that counts the query heads; empty where none is known."""

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def prefix(self) -> str:
        return f"{self.name}." if self.name else ""
