"""gramian report: one page of everything that some moments can tell."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramian.cli.options import (
    Device,
    Dtype,
    Force,
    Json,
    Seed,
    amount,
    console,
    errors,
    print_json,
    waiting,
)
from gramian.errors import GramianError, refuse_existing

if TYPE_CHECKING:
    from gramian.moments import MomentSet
    from gramian.networks import Checkpoint

EXAMPLE = """
Examples:

    gramian report m.moments ab.moments -o report/

    gramian report m.moments --model bundled:smollm2 --eval test.txt -o report/
"""


def report(
    moments: Annotated[list[Path], typer.Argument(help="Folders written by gramian collect.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for index.html and data.json.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model that moments are of, for what needs weights; may be repeated."),
    ] = None,
    eval_data: Annotated[
        str | None, typer.Option("--eval", help="Unseen text to judge casts on; needs --model.")
    ] = None,
    eval_tokens: Annotated[str, typer.Option(help="Tokens of it.")] = "4k",
    length: Annotated[int, typer.Option(help="Tokens in a window of it.")] = 512,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write one self-contained page with a section for everything that the moments can tell.

    What is left out, and why, is said here and at the end of the page.
    """
    from gramian.cli.report_sections import Text, assemble
    from gramian.moments import MomentSet
    from gramian.report import write_report

    for written in (out / "index.html", out / "data.json"):
        refuse_existing(written, force=force)
    if eval_data is not None and not model:
        raise GramianError(f"--eval {eval_data}: judging casts needs --model MODEL too")
    text = None
    if eval_data is not None:
        text = Text(eval_data, amount(eval_tokens, "--eval-tokens"), length, seed)
    found: list[MomentSet] = []
    for path in moments:
        with waiting(f"checking {path}"):
            found.append(MomentSet.open(path, verify=True))
    checkpoints = _checkpoints(model or [], found, device, dtype)
    made = assemble(found, checkpoints, text)
    heading = title or f"Gramian: {', '.join(path.name for path in moments)}"
    write_report(made.sections, out, title=heading, force=force)
    if json:
        print_json(
            {
                "path": str(out / "index.html"),
                "data": str(out / "data.json"),
                "sections": [section.anchor for section in made.sections],
                "left_out": [asdict(item) for item in made.left_out],
            }
        )
        return
    console.print(f"{out / 'index.html'}: {len(made.sections)} sections", soft_wrap=True)
    for section in made.sections:
        console.print(f"  {section.title}", soft_wrap=True, markup=False)
    for item in made.left_out:
        text_ = f"left out: {item.section} of {item.moments}: {item.why}"
        errors.print(text_, soft_wrap=True, markup=False)


report.__doc__ = (report.__doc__ or "") + EXAMPLE


def _checkpoints(
    models: list[str], sets: list[MomentSet], device: str, dtype: str
) -> dict[str, Checkpoint]:
    """Weights digest -> checkpoint, of the models that some of the moments are of."""
    from gramian.networks import open as open_checkpoint

    wanted = {found.recipe.weights: found.recipe.model for found in sets}
    checkpoints: dict[str, Checkpoint] = {}
    for name in models:
        checkpoint = open_checkpoint(name, device=device, dtype=dtype)
        with waiting(f"reading the weights of {name}"):
            digest = checkpoint.digest
        if digest not in wanted:
            known = ", ".join(f"{model} ({weights[:12]})" for weights, model in wanted.items())
            raise GramianError(
                f"--model {name} (weights {digest[:12]}) is not what the moments are of: {known}"
            )
        checkpoints[digest] = checkpoint
    return checkpoints
