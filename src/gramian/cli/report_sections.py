"""Which sections some moments can give, what makes them, and why the others are left out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gramian.errors import GramianError
from gramian.moments import MomentSet
from gramian.networks.checkpoint import Checkpoint
from gramian.report import Section, Table
from gramian.report.sections.collected import collected_section


@dataclass(frozen=True)
class Text:
    """Unseen text that casts are judged on."""

    source: str
    tokens: int
    length: int
    seed: int

    def options(self) -> list[str]:
        """The options of ``gramian lens`` for the same text."""
        given = {"--eval": self.source, "--eval-tokens": self.tokens, "--length": self.length}
        if self.seed:
            given["--seed"] = self.seed
        return [str(part) for pair in given.items() for part in pair]


@dataclass(frozen=True)
class Source:
    """One set of moments, and the weights behind it where they were given."""

    moments: MomentSet
    checkpoint: Checkpoint | None
    text: Text | None
    suffix: str
    """Sets the anchors of several sets apart."""

    @property
    def path(self) -> str:
        return str(self.moments.path)

    def command(self, job: str, *options: str, weights: bool = False) -> str:
        """The command of one job on this set."""
        words = ["gramian", job, self.path]
        if weights and self.checkpoint is not None:
            words += ["--model", self.checkpoint.name]
            dtype = str(self.checkpoint.dtype).removeprefix("torch.")
            words += ["--dtype", dtype] if dtype != "float32" else []
        return shlex.join([*words, *options])


@dataclass(frozen=True)
class LeftOut:
    """A section that a set of moments cannot give."""

    section: str
    moments: str
    why: str


@dataclass(frozen=True)
class Assembled:
    """The sections of a page, and those that it lacks."""

    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...]


def assemble(
    sets: Sequence[MomentSet], checkpoints: Mapping[str, Checkpoint], text: Text | None = None
) -> Assembled:
    """Every section that the sets can give, set by set.

    Parameters
    ----------
    sets : verified sets, so that what a job then refuses is a reason and not damage.
    checkpoints : weights digest -> checkpoint, for what needs weights.
    """
    sections: list[Section] = []
    left_out: list[LeftOut] = []
    for number, moments in enumerate(sets, start=1):
        suffix = f"-{number}" if len(sets) > 1 else ""
        source = Source(moments, checkpoints.get(moments.recipe.weights), text, suffix)
        for name, make in SECTIONS.items():
            made = make(source)
            if isinstance(made, Section):
                sections.append(_titled(made, source))
            else:
                left_out.append(LeftOut(name, source.path, made))
    if left_out:
        sections.append(_left_out(left_out))
    return Assembled(tuple(sections), tuple(left_out))


def _titled(section: Section, source: Source) -> Section:
    """With the name of its set, where there are several sets and it does not say."""
    name = Path(source.path).name
    if not source.suffix or name in section.title:
        return section
    return replace(section, title=f"{section.title} ({name})")


def _collected(source: Source) -> Section:
    return collected_section(
        source.moments, command=source.command("info"), anchor=f"collected{source.suffix}"
    )


def _lens(source: Source) -> Section | str:
    from gramian.cli.lens import branch_casts, judged
    from gramian.cli.options import bar
    from gramian.lens import Summary, early_exit, layer_linearity, needs, solve
    from gramian.report.sections.lens import lens_section

    moments, checkpoint = source.moments, source.checkpoint
    if moments.recipe.partner is not None:
        return "the lens reads one network; these moments are of two"
    if not any(pair.y == "final" for pair in moments.pairs):
        return "no pair of a layer with the last one; collect with --for lens"
    if checkpoint is None:
        return f"it needs the weights; give --model {moments.recipe.model}"
    missing = needs(checkpoint, submodules=False).missing(moments, checkpoint.blueprint)
    if missing.items:
        return f"{len(missing.items)} of its pairs are not there; collect with --for lens"
    try:
        with bar("solving", checkpoint.blueprint.depth) as advance:
            casts = solve(checkpoint, moments, progress=advance)
        linearity = layer_linearity(checkpoint, moments)
        branches = branch_casts(checkpoint, moments)
    except GramianError as error:
        return str(error)
    judgement, text = None, source.text
    if text is not None:
        judgement = judged(
            checkpoint, moments, casts, text.source, text.tokens, text.length, text.seed
        )
    exit_ = early_exit(judgement, length=text.length) if judgement and text else None
    summary = Summary.of(moments, casts, linearity, branches, judgement, exit_)
    options = [*(text.options() if text else []), "--plot", "lens.html"]
    command = source.command("lens", *options, weights=True)
    return lens_section(summary, command=command, anchor=f"lens{source.suffix}")


def _inspect(source: Source) -> Section | str:
    from gramian.cli.options import bar
    from gramian.inspect import inspect
    from gramian.report.sections.inspect import inspect_section

    moments = source.moments
    try:
        with bar("inspecting", len(moments.sites)) as advance:
            inspection = inspect(moments, source.checkpoint, progress=advance)
    except GramianError as error:
        return str(error)
    command = source.command("inspect", weights=True)
    return inspect_section(inspection, command=command, anchor=f"inspect{source.suffix}")


def _compare(source: Source) -> Section | str:
    from gramian.cli.options import bar
    from gramian.compare import compare
    from gramian.report.sections.compare import compare_section

    try:
        with bar("comparing") as advance:
            comparison = compare(source.moments, progress=advance)
    except GramianError as error:
        return str(error)
    command = source.command("compare")
    return compare_section(comparison, command=command, anchor=f"compare{source.suffix}")


SECTIONS: Mapping[str, Callable[[Source], Section | str]] = {
    "collected": _collected,
    "inspect": _inspect,
    "lens": _lens,
    "compare": _compare,
}
"""Name -> what makes the section, or says why it cannot."""


def _left_out(items: Sequence[LeftOut]) -> Section:
    rows = tuple((item.section, item.moments, item.why) for item in items)
    table = Table("Sections that these moments do not give", ("section", "moments", "why"), rows)
    return Section("What is left out", "left-out", tables=(table,))
