"""One small table per ``model_type``: how that family names the parts of a blueprint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import nn

from gramian.errors import GramianError
from gramian.networks.blueprint import Blueprint, Layer, Layout, Matrix, Norm, NormKind, Tap


@dataclass(frozen=True)
class Family:
    """Names of one model family; paths inside a layer are relative to it."""

    layers: str = "model.layers"
    embed: str = "model.embed_tokens"
    final_norm: str = "model.norm"
    head: str = "lm_head"
    depth_key: str = "num_hidden_layers"
    norm: NormKind = "rms"
    layout: Layout = "out_in"
    attn_norm: str = "input_layernorm"
    mlp_norm: str = "post_attention_layernorm"
    attn_post: str | None = None
    mlp_post: str | None = None
    attention: str = "self_attn"
    mlp: str = "mlp"
    qkv: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    o: str = "self_attn.o_proj"
    mlp_readers: tuple[str, ...] = ("mlp.gate_proj", "mlp.up_proj")
    mlp_writer: str = "mlp.down_proj"
    experts: bool = False
    attention_flag: str | None = None
    mlp_flag: str | None = None


LLAMA = Family(attention_flag="attention_bias", mlp_flag="mlp_bias")

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": replace(LLAMA, attention_flag=None, mlp_flag=None),
    "qwen2": replace(LLAMA, attention_flag=None, mlp_flag=None),
    "qwen3": replace(LLAMA, mlp_flag=None),
    "gpt2": Family(
        layers="transformer.h",
        embed="transformer.wte",
        final_norm="transformer.ln_f",
        depth_key="n_layer",
        norm="layer",
        layout="in_out",
        attn_norm="ln_1",
        mlp_norm="ln_2",
        attention="attn",
        qkv=("attn.c_attn",),
        o="attn.c_proj",
        mlp_readers=("mlp.c_fc",),
        mlp_writer="mlp.c_proj",
    ),
    "gemma3_text": Family(
        norm="rms1p",
        mlp_norm="pre_feedforward_layernorm",
        attn_post="post_attention_layernorm",
        mlp_post="post_feedforward_layernorm",
        attention_flag="attention_bias",
    ),
    "mixtral": Family(
        mlp_readers=("mlp.gate", "mlp.experts.gate_up_proj"),
        mlp_writer="mlp.experts.down_proj",
        experts=True,
    ),
}


def blueprint(config: Any, model: nn.Module) -> Blueprint:
    """The blueprint of a transformers model (its weights may be on the meta device).

    Raises
    ------
    GramianError : no table for ``config.model_type``, or a part that the table names is missing.
    """
    model_type = str(getattr(config, "model_type", ""))
    if model_type not in FAMILIES:
        raise GramianError(
            f"no blueprint for model class {type(model).__name__} (model_type {model_type!r}); "
            f"known model types: {', '.join(sorted(FAMILIES))}"
        )
    return _Reader(FAMILIES[model_type], config, model, model_type).blueprint()


@dataclass(frozen=True)
class _Reader:
    """Resolves a family's names against the parameters of one model."""

    family: Family
    config: Any
    model: nn.Module
    model_type: str

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Parameter name -> shape; tied parameters under both names."""
        named = self.model.named_parameters(remove_duplicate=False)
        return {name: tuple(parameter.shape) for name, parameter in named}

    def blueprint(self) -> Blueprint:
        family = self.family
        layers = self.module(family.layers)
        head = self.matrix(family.head, layout="out_in")
        width = self.shape(f"{family.embed}.weight")[1]
        return Blueprint(
            model_type=self.model_type,
            width=width,
            vocabulary=self.shape(f"{family.embed}.weight")[0],
            layers=tuple(self.layer(i, width) for i in range(len(layers))),  # type: ignore[arg-type]
            embed=family.embed,
            head=head,
            final_norm=Norm("final", family.final_norm, family.norm, (head,)),
            tied=bool(getattr(self.config, "tie_word_embeddings", False)),
            causal=True,
            depth_key=family.depth_key,
            layers_path=family.layers,
        )

    def layer(self, index: int, width: int) -> Layer:
        family, path = self.family, f"{self.family.layers}.{index}"
        attention, mlp = f"{path}.{family.attention}", f"{path}.{family.mlp}"
        qkv = tuple(
            self.matrix(f"{path}.{name}", flag=family.attention_flag) for name in family.qkv
        )
        o = self.matrix(f"{path}.{family.o}", flag=family.attention_flag)
        mlp_readers = tuple(
            self.matrix(f"{path}.{name}", flag=family.mlp_flag) for name in family.mlp_readers
        )
        down = self.matrix(f"{path}.{family.mlp_writer}", flag=family.mlp_flag)
        norms = {
            "attn": Norm(f"{index}.attn", f"{path}.{family.attn_norm}", family.norm, qkv),
            "mlp": Norm(f"{index}.mlp", f"{path}.{family.mlp_norm}", family.norm, mlp_readers),
        }
        writers: dict[str, Matrix] = {}
        outputs: dict[str, str] = {}
        for site, branch, post, matrix in (
            ("attn_out", attention, family.attn_post, o),
            ("mlp_out", mlp, family.mlp_post, down),
        ):
            if post is None:
                writers[site], outputs[site] = matrix, branch
            else:
                outputs[site] = f"{path}.{post}"
                norms[f"{site}_norm"] = Norm(f"{index}.{site}_norm", outputs[site], family.norm, ())
        z = self.inputs(o)
        taps = {
            "resid_pre": Tap(path, "input", width),
            "resid_mid": Tap(norms["mlp"].path, "input", width),
            "attn_in": Tap(norms["attn"].path, "output", width),
            **self.projections(path, qkv, z),
            "z": Tap(f"{path}.{family.o}", "input", z),
            "attn_out": Tap(outputs["attn_out"], "output", width),
            "mlp_in": Tap(norms["mlp"].path, "output", width),
            "mlp_out": Tap(outputs["mlp_out"], "output", width),
        }
        if not family.experts:
            taps["mlp_mid"] = Tap(f"{path}.{family.mlp_writer}", "input", self.inputs(down))
        return Layer(index, path, taps, norms, writers)

    def projections(self, path: str, qkv: tuple[Matrix, ...], z: int) -> dict[str, Tap]:
        """Taps of q, k and v: three modules, or columns of a fused one."""
        if len(qkv) == 3:
            return {
                site: Tap(f"{path}.{name}", "output", self.outputs(matrix))
                for site, name, matrix in zip("qkv", self.family.qkv, qkv, strict=True)
            }
        fused = f"{path}.{self.family.qkv[0]}"
        return {site: Tap(fused, "output", z, (i * z, (i + 1) * z)) for i, site in enumerate("qkv")}

    def matrix(self, path: str, *, flag: str | None = None, layout: Layout | None = None) -> Matrix:
        weight = f"{path}.weight" if f"{path}.weight" in self.shapes else path
        shape = self.shape(weight)
        if len(shape) == 3:
            return Matrix(weight, "expert_out_in", f"{path}_bias", False)
        router = self.family.experts and path.endswith(".gate")
        chosen = layout or ("out_in" if router else self.family.layout)
        bias = f"{path}.bias"
        return Matrix(weight, chosen, bias, bias in self.shapes, flag)

    def inputs(self, matrix: Matrix) -> int:
        shape = self.shape(matrix.weight)
        return shape[0] if matrix.layout == "in_out" else shape[-1]

    def outputs(self, matrix: Matrix) -> int:
        shape = self.shape(matrix.weight)
        return shape[1] if matrix.layout == "in_out" else shape[-2]

    def module(self, path: str) -> nn.Module:
        try:
            return self.model.get_submodule(path)
        except AttributeError as error:
            raise GramianError(
                f"the table for model_type {self.model_type!r} names {path!r}, which "
                f"{type(self.model).__name__} does not have ({error}); this version of the model "
                "code is not one that Gramian knows"
            ) from None

    def shape(self, parameter: str) -> tuple[int, ...]:
        if parameter not in self.shapes:
            raise GramianError(
                f"the table for model_type {self.model_type!r} names the parameter {parameter!r}, "
                f"which {type(self.model).__name__} does not have"
            )
        return self.shapes[parameter]
