"""The parameters of a model by name and shape, as matrices and norms."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from gramian.errors import GramianError
from gramian.networks.parts import Layout, Matrix, Norm, NormKind, NormPlace


@dataclass(frozen=True)
class Parameters:
    """Names and shapes of one model, and where its base model is in it."""

    model: nn.Module
    model_type: str
    shapes: dict[str, tuple[int, ...]]
    """Parameter name -> shape; tied parameters under all names."""
    base: str
    """``model.`` for a language model with a head, empty for a base model."""

    @classmethod
    def of(cls, model: nn.Module, model_type: str) -> Parameters:
        named = model.named_parameters(remove_duplicate=False)
        shapes = {name: tuple(parameter.shape) for name, parameter in named}
        prefix = str(getattr(model, "base_model_prefix", "") or "")
        inside = bool(prefix) and isinstance(getattr(model, prefix, None), nn.Module)
        return cls(model, model_type, shapes, f"{prefix}." if inside else "")

    def inside(self, path: str) -> str:
        """A path in the base model as one in the model."""
        return self.base + path

    def optional(self, path: str | None) -> str | None:
        """A path in the base model as one in the model; None where nothing is there."""
        if path is None or f"{self.base}{path}.weight" not in self.shapes:
            return None
        return self.base + path

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

    def matrix(
        self,
        path: str,
        layout: Layout,
        *,
        flag: str | None = None,
        fused: tuple[str, ...] = (),
        group: int = 1,
    ) -> Matrix:
        """The matrix of a module, or a parameter that is one itself (fused experts)."""
        module = f"{path}.weight" in self.shapes
        weight, bias = (f"{path}.weight", f"{path}.bias") if module else (path, f"{path}_bias")
        self.shape(weight)
        return Matrix(weight, layout, bias, bias in self.shapes, flag, fused, group)

    def norm(
        self,
        name: str,
        path: str,
        kind: NormKind,
        readers: tuple[Matrix, ...],
        *,
        place: NormPlace = "before",
    ) -> Norm:
        norm = Norm(name, path, kind, readers, place)
        self.shape(norm.weight)
        if norm.bias is not None:
            self.shape(norm.bias)
        return norm

    def inputs(self, matrix: Matrix) -> int:
        shape = self.shape(matrix.weight)
        return shape[-2] if matrix.inputs_first else shape[-1]

    def outputs(self, matrix: Matrix) -> int:
        shape = self.shape(matrix.weight)
        return shape[-1] if matrix.inputs_first else shape[-2]
