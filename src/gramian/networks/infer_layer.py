"""What one layer adds to the stream, worked out from what its sub-modules gave and returned."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from gramian.errors import GramianError
from gramian.networks.parts import Layer, Layout, Matrix, Norm, NormKind, Reader, Tap, Writer
from gramian.networks.probing import Call, Trace, same


@dataclass(frozen=True)
class _Branch:
    """A sub-module whose output, times ``scale``, is added to the stream."""

    path: str
    call: Call
    scale: float
    body: str
    """The sub-module that does the work: another one where ``path`` is a norm of its output."""
    mixes: bool

    @property
    def kind(self) -> str:
        return "attn" if self.mixes else "mlp"


def infer_layer(
    seen: Trace, index: int, path: str, width: int, factors: tuple[float, ...]
) -> Layer:
    """The parts of one layer.

    Raises
    ------
    GramianError : what it adds is not a sum of outputs of its sub-modules.
    """
    whole, children = seen.calls[path], seen.children(path)
    summands = _summands(whole, children, factors)
    if summands is None:
        raise GramianError(
            f"cannot infer a blueprint of {type(seen.model).__name__}: what layer {path} adds to "
            f"the residual stream is not the sum of what its parts {', '.join(children)} return; "
            "its architecture needs a table"
        )
    branches = [_branch(seen, name, scale, children) for name, scale in summands]
    kinds = [branch.kind for branch in branches]
    if len(set(kinds)) != len(kinds):
        raise GramianError(
            f"cannot infer a blueprint of {type(seen.model).__name__}: layer {path} has several "
            f"branches of one kind ({', '.join(f'{b.path}: {b.kind}' for b in branches)}); its "
            "architecture needs a table"
        )
    taps = {"resid_pre": Tap(path, "input", width)}
    norms: dict[str, Norm] = {}
    readers: list[Reader] = []
    outputs: list[Writer] = []
    writers: dict[str, Matrix] = {}
    for branch in branches:
        site = f"{index}.{branch.kind}"
        norm = _norm_before(seen, children, branch, f"{index}.{branch.kind}")
        if norm is not None and norm.path not in {known.path for known in norms.values()}:
            norms[branch.kind] = norm
        linears = _linears(seen, branch)
        readers += [Reader(m, f"{site}_in", norm) for m in linears.values()]
        taps[f"{branch.kind}_in"] = Tap(branch.body, "input", width)
        if branch.mixes:
            taps |= _projections(seen, linears)
        if (writer := _writer(seen, branch)) is not None:
            name, matrix = writer
            middle = "z" if branch.mixes else "mlp_mid"
            taps[middle] = Tap(name, "input", seen.calls[name].given.shape[-1])
            outputs.append(Writer(matrix, f"{site}_out", None))
            if branch.scale == 1.0 and branch.body == branch.path:
                writers[f"{branch.kind}_out"] = matrix
        # Copied, since a layer may add in place.
        taps[f"{branch.kind}_out"] = Tap(
            branch.path, "output", width, overwritten=True, scale=branch.scale
        )
    between = _between(whole, branches, children)
    if between is not None:
        taps["resid_mid"] = Tap(between, "input", width)
    parallel = len(branches) > 1 and between is None
    return Layer(index, path, taps, norms, writers, tuple(readers), tuple(outputs), {}, parallel)


def norm_kind(module: nn.Module, call: Call) -> NormKind | None:
    """Which norm a module computes; None if it is no norm."""
    gain = getattr(module, "weight", None)
    if not isinstance(gain, Tensor) or gain.dim() != 1 or gain.shape != call.given.shape[-1:]:
        return None
    x, y, g = call.given.double(), call.returned.double(), gain.detach().double()
    bias = getattr(module, "bias", None)
    y = y - bias.detach().double() if isinstance(bias, Tensor) else y
    centred = x - x.mean(-1, keepdim=True)
    forms: dict[NormKind, Tensor] = {
        "rms": x / x.square().mean(-1, keepdim=True).sqrt() * g,
        "rms1p": x / x.square().mean(-1, keepdim=True).sqrt() * (1 + g),
        "layer": centred / centred.square().mean(-1, keepdim=True).sqrt() * g,
    }
    # The small number under the root scales whole rows, so that their directions tell the form;
    # a constant gain leaves two forms with one direction, and then the length tells.
    off = 64 * torch.finfo(call.given.dtype).eps
    real = y.norm(dim=-1) > 0
    fitting = {
        kind: float((y.norm() / expected.norm()).log().abs())
        for kind, expected in forms.items()
        if bool((torch.cosine_similarity(expected[real], y[real], dim=-1) > 1 - off).all())
    }
    return min(fitting, key=lambda kind: fitting[kind], default=None)


def _summands(
    whole: Call, children: dict[str, Call], factors: tuple[float, ...]
) -> list[tuple[str, float]] | None:
    """The fewest children whose outputs, with factors, make ``returned - given``."""
    outputs = {n: c.returned for n, c in children.items() if c.returned.shape == whole.given.shape}
    added = whole.returned.double() - whole.given.double()
    eps = torch.finfo(whole.given.dtype).eps
    for count in (1, 2):
        for names in combinations(outputs, count):
            columns = torch.stack([outputs[n].double().flatten() for n in names], 1)
            fitted = torch.linalg.lstsq(columns, added.flatten()[:, None]).solution[:, 0]
            scales = [_snapped(float(c), factors, eps) for c in fitted]
            if None in scales:
                continue
            exact = torch.tensor(scales, dtype=torch.float64, device=columns.device)
            missing = (columns @ exact - added.flatten()).norm()
            small = 8 * eps * whole.returned.double().norm()
            if missing <= small and missing <= 0.05 * added.norm():
                return [(n, float(s)) for n, s in zip(names, scales, strict=True) if s is not None]
    return None


def _snapped(value: float, factors: tuple[float, ...], eps: float) -> float | None:
    """One, or the configuration's number that this is up to rounding."""
    close = max(1e-4, 8 * eps)
    return next((f for f in (1.0, *factors) if abs(value / f - 1) < close), None)


def _branch(seen: Trace, path: str, scale: float, children: dict[str, Call]) -> _Branch:
    call, body = children[path], path
    if norm_kind(seen.model.get_submodule(path), call) is not None:
        body = next((n for n, c in children.items() if same(c.returned, call.given)), path)
    return _Branch(path, call, scale, body, _mixes(seen, body))


def _mixes(seen: Trace, path: str) -> bool:
    """Whether a module's output at a position depends on others: it does if the output of
    reversed rows is not the reversed output."""
    call, module = seen.calls[path], seen.model.get_submodule(path)
    args, kwargs = list(call.args), dict(call.kwargs)
    flipped = call.given.flip(1)
    if args:
        args[0] = flipped
    else:
        name = "hidden_states" if "hidden_states" in kwargs else next(iter(kwargs))
        kwargs[name] = flipped
    try:
        with torch.no_grad():
            again: Any = module(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError) as error:
        raise GramianError(
            f"cannot infer a blueprint of {type(seen.model).__name__}: {path} does not run again "
            f"on its own ({str(error).splitlines()[0]}); its architecture needs a table"
        ) from error
    while isinstance(again, (tuple, list)):
        again = again[0]
    return not same(again.flip(1), call.returned)


def _norm_before(seen: Trace, children: dict[str, Call], branch: _Branch, name: str) -> Norm | None:
    """The child norm whose output the branch reads."""
    given = seen.calls[branch.body].given
    for path, call in children.items():
        module = seen.model.get_submodule(path)
        if same(call.returned, given) and (kind := norm_kind(module, call)) is not None:
            shifts = getattr(module, "bias", None) is not None
            matrices = tuple(
                matrix
                for child in children
                if child != path
                for matrix in _reading(seen, child, call.returned).values()
            )
            return Norm(name, path, kind, matrices, shifts=shifts)
    return None


def _linears(seen: Trace, branch: _Branch) -> dict[str, Matrix]:
    """The linear layers inside a branch that read its input."""
    return _reading(seen, branch.body, seen.calls[branch.body].given)


def _reading(seen: Trace, path: str, given: Tensor) -> dict[str, Matrix]:
    return {
        name: matrix
        for name, call in seen.below(path).items()
        if (matrix := _matrix(seen, name)) is not None and same(call.given, given)
    }


def _matrix(seen: Trace, path: str) -> Matrix | None:
    module = seen.model.get_submodule(path)
    if not isinstance(module, (nn.Linear, Conv1D)):
        return None
    layout: Layout = "in_out" if isinstance(module, Conv1D) else "out_in"
    return Matrix(f"{path}.weight", layout, f"{path}.bias", module.bias is not None)


def _writer(seen: Trace, branch: _Branch) -> tuple[str, Matrix] | None:
    """The linear layer whose output is the branch's."""
    for name, call in reversed(seen.below(branch.body).items()):
        matrix = _matrix(seen, name)
        if matrix is not None and same(call.returned, seen.calls[branch.body].returned):
            return name, matrix
    return None


def _projections(seen: Trace, linears: dict[str, Matrix]) -> dict[str, Tap]:
    """q, k and v, where three linear layers are named so."""
    found = {
        site: [n for n in linears if n.rpartition(".")[2] in (f"{site}_proj", f"{site}_lin", site)]
        for site in "qkv"
    }
    if any(len(names) != 1 for names in found.values()):
        return {}
    return {
        site: Tap(names[0], "output", seen.calls[names[0]].returned.shape[-1])
        for site, names in found.items()
    }


def _between(whole: Call, branches: list[_Branch], children: dict[str, Call]) -> str | None:
    """The child that is given the stream after the first of two branches."""
    if len(branches) != 2:
        return None
    first = min(branches, key=lambda branch: branch.call.order)
    middle = whole.given.double() + first.scale * first.call.returned.double()
    expected = middle.to(whole.given.dtype)
    return next((n for n, c in children.items() if same(c.given, expected)), None)
