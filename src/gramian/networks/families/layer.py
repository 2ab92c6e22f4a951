"""One layer of a stack: its branches as taps, norms, readers and writers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gramian.networks.families.parameters import Parameters
from gramian.networks.families.shape import Branch, Stack
from gramian.networks.parts import Layer, Layout, Matrix, Norm, Reader, Tap, Writer

AFTER = {"attn": "resid_mid", "xattn": "resid_xmid", "mlp": "resid_post"}
"""The site that the stream is at once a branch has been added."""


@dataclass(frozen=True)
class LayerReading:
    """Reads the layers of one stack."""

    parameters: Parameters
    stack: Stack
    config: Any
    width: int
    prefix: str

    def layer(self, index: int, path: str) -> Layer:
        stack = self.stack
        norms = self.norms(index, path)
        taps = {"resid_pre": Tap(path, "input", self.width)}
        readers: list[Reader] = []
        outputs: list[Writer] = []
        writers: dict[str, Matrix] = {}
        inner: dict[str, Norm] = {}
        branches = self.branches(path)
        for i, branch in enumerate(branches):
            site = f"{self.prefix}{index}.{branch.kind}"
            norm = self.before(norms, path, branch)
            reading = self.on_stream(path, branch)
            readers += [Reader(matrix, f"{site}_in", norm) for matrix in reading]
            writer = self.writer(path, branch)
            after = norms.get(f"{branch.kind}_out_norm")
            outputs.append(Writer(writer, f"{site}_out", after))
            if after is None:
                writers[f"{branch.kind}_out"] = writer
            for name in branch.inner_norms:
                if f"{path}.{name}.weight" in self.parameters.shapes:
                    short = name.rpartition(".")[2]
                    inner[short] = self.parameters.norm(
                        f"{self.prefix}{index}.{short}",
                        f"{path}.{name}",
                        stack.norm,
                        (),
                        place="inside",
                    )
            taps |= self.taps(path, branch, norm, after)
            if i + 1 < len(branches) and not stack.parallel:
                taps[AFTER[branch.kind]] = self.between(path, branch, branches[i + 1])
        return Layer(
            index,
            path,
            taps,
            norms,
            writers,
            tuple(readers),
            tuple(outputs),
            inner,
            stack.parallel,
            self.cross_readers(path),
        )

    def branches(self, path: str) -> tuple[Branch, ...]:
        """The branches of one layer, each in the form that it has there."""
        shapes = self.parameters.shapes

        def has(name: str) -> bool:
            return f"{path}.{name}.weight" in shapes or f"{path}.{name}" in shapes

        found: list[Branch] = []
        for entry in self.stack.branches:
            forms = entry if isinstance(entry, tuple) else (entry,)
            fitting = (form for form in forms if has(form.writer) and has(form.readers[0]))
            found.append(next(fitting, forms[0]))
        return tuple(found)

    def norms(self, index: int, path: str) -> dict[str, Norm]:
        """Norms of the stream and of branch outputs; one that branches share, once."""
        found: dict[str, Norm] = {}
        for branch in self.branches(path):
            for key, name, place in (
                (branch.kind, branch.norm, "before"),
                (f"{branch.kind}_out_norm", branch.branch_norm, "branch"),
                (f"{AFTER[branch.kind]}_norm", branch.stream_norm, "stream"),
            ):
                if name is None:
                    continue
                reading = self.on_stream(path, branch) if place == "before" else ()
                where = f"{path}.{name}"
                shared = next((k for k, norm in found.items() if norm.path == where), None)
                if shared is not None:
                    both = found[shared].readers + reading
                    found[shared] = replace(found[shared], readers=both)
                    continue
                found[key] = self.parameters.norm(
                    f"{self.prefix}{index}.{key}",
                    where,
                    self.stack.norm,
                    reading,
                    place=place,  # type: ignore[arg-type]
                )
        return found

    def before(self, norms: dict[str, Norm], path: str, branch: Branch) -> Norm | None:
        where = None if branch.norm is None else f"{path}.{branch.norm}"
        return next((norm for norm in norms.values() if norm.path == where), None)

    def on_stream(self, path: str, branch: Branch) -> tuple[Matrix, ...]:
        """The readers of this tower's stream: all, but the query alone in a cross-attention."""
        every = self.readers(path, branch)
        return every[:1] if branch.kind == "xattn" else every

    def cross_readers(self, path: str) -> tuple[Matrix, ...]:
        """The keys and values that read the other tower."""
        cross = (branch for branch in self.branches(path) if branch.kind == "xattn")
        return tuple(matrix for branch in cross for matrix in self.readers(path, branch)[1:])

    def readers(self, path: str, branch: Branch) -> tuple[Matrix, ...]:
        names = branch.readers
        if branch.kind == "mlp" or len(names) == 1:
            fused = ("q", "k", "v") if branch.kind == "attn" else ()
            return tuple(self.matrix(path, branch, name, fused=fused) for name in names)
        q, k, v = names
        query, key = self.matrix(path, branch, q), self.matrix(path, branch, k)
        group = self.parameters.outputs(query) // self.parameters.outputs(key)
        return (
            query,
            replace(key, group=group),
            replace(self.matrix(path, branch, v), group=group),
        )

    def writer(self, path: str, branch: Branch) -> Matrix:
        return self.matrix(path, branch, branch.writer)

    def matrix(
        self, path: str, branch: Branch, name: str, *, fused: tuple[str, ...] = ()
    ) -> Matrix:
        layout: Layout = branch.layout or self.stack.layout
        if branch.experts:
            layout = layout if name in branch.experts else "out_in"
        return self.parameters.matrix(f"{path}.{name}", layout, flag=branch.flag, fused=fused)

    def taps(
        self, path: str, branch: Branch, norm: Norm | None, after: Norm | None
    ) -> dict[str, Tap]:
        kind, x = branch.kind, "x" if branch.kind == "xattn" else ""
        writer = self.writer(path, branch)
        written = f"{path}.{branch.module or branch.writer}" if after is None else after.path
        inputs = self.parameters.inputs(writer)
        middle = Tap(f"{path}.{branch.writer}", "input", inputs)
        out = Tap(written, "output", self.width, overwritten=branch.overwritten)
        read = (
            Tap(f"{path}.{branch.readers[0]}", "input", self.width)
            if norm is None
            else Tap(norm.path, "output", self.width)
        )
        found = {f"{kind}_in": read}
        if kind == "mlp":
            # Every expert has its own middle: there is no single one.
            found |= {} if branch.experts else {"mlp_mid": middle}
        else:
            projections = self.projections(path, branch, inputs)
            found |= {f"{x}{site}": tap for site, tap in zip("qkv", projections, strict=True)}
            found[f"{x}z"] = middle
        return {**found, f"{kind}_out": out}

    def projections(self, path: str, branch: Branch, z: int) -> list[Tap]:
        """q, k and v: the outputs of three modules, or columns of one."""
        matrices = self.readers(path, branch)
        if len(matrices) == 3:
            return [
                Tap(f"{path}.{name}", "output", self.parameters.outputs(matrix))
                for name, matrix in zip(branch.readers, matrices, strict=True)
            ]
        fused = f"{path}.{branch.readers[0]}"
        kv = (self.parameters.outputs(matrices[0]) - z) // 2
        groups = 1
        if branch.split == "groups":
            heads = int(getattr(self.config, self.stack.heads_key))
            groups = kv // (z // heads)
        starts = [0, z // groups, (z + kv) // groups, (z + 2 * kv) // groups]
        return [
            Tap(fused, "output", width, (starts[i], starts[i + 1]), groups)
            for i, width in enumerate((z, kv, kv))
        ]

    def between(self, path: str, branch: Branch, following: Branch) -> Tap:
        """The stream after one branch and before the next."""
        if branch.stream_norm is not None:
            return Tap(f"{path}.{branch.stream_norm}", "output", self.width)
        return Tap(f"{path}.{following.norm or following.readers[0]}", "input", self.width)
