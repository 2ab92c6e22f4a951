"""gramian lens: read the layers of a network from its moments."""

from __future__ import annotations

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
    bar,
    command_line,
    console,
    print_json,
    waiting,
)
from gramian.errors import GramianError, refuse_existing

if TYPE_CHECKING:
    from gramian.lens import BranchScore, Casts, Judgement
    from gramian.moments import MomentSet
    from gramian.networks import Checkpoint

EXAMPLE = """
Examples:

    gramian lens m.moments --model bundled:smollm2 --eval test.txt --plot lens.html

    gramian lens m.moments --model bundled:smollm2 --prompt "The capital of France is" --top 5
"""


def lens(
    moments: Annotated[Path, typer.Argument(help="A folder written by gramian collect.")],
    model: Annotated[str, typer.Option(help="The model that the moments are of.")],
    target: Annotated[str, typer.Option(help="Cast to the last or to the next layer.")] = "last",
    kind: Annotated[str, typer.Option(help="affine, or linear as in the paper.")] = "affine",
    eval_data: Annotated[
        str | None, typer.Option("--eval", help="Unseen text to judge on.")
    ] = None,
    eval_tokens: Annotated[str, typer.Option(help="Tokens of it.")] = "4k",
    length: Annotated[int, typer.Option(help="Tokens in a window of it.")] = 512,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="With --eval: put casts in place of attention and MLP."),
    ] = False,
    exit_agreement: Annotated[float, typer.Option(help="Agreement that early exit keeps.")] = 0.95,
    prompt: Annotated[str | None, typer.Option(help="Read every layer on this text.")] = None,
    top: Annotated[int, typer.Option(help="Tokens per layer and position.")] = 5,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Save the casts.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Casting and linearity per layer, or what every layer would say about a prompt."""
    from gramian.lens import Summary, early_exit, layer_linearity, save_casts, solve
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint
    from gramian.report.tables import lens_tables

    for written in (out, plot):
        if written is not None:
            refuse_existing(written, force=force)
    if not 0 < exit_agreement <= 1:
        raise GramianError(f"--exit-agreement {exit_agreement}: expected a share in (0, 1]")
    found = MomentSet.open(moments)
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    if target not in ("last", "next") or kind not in ("affine", "linear"):
        raise GramianError(
            f"--target {target} --kind {kind}: expected last or next, and affine or linear"
        )
    with bar("solving", checkpoint.blueprint.depth) as advance:
        casts = solve(checkpoint, found, target=target, kind=kind, progress=advance)  # type: ignore[arg-type]
    if out is not None:
        save_casts(casts, out, force=force)
    if prompt is not None:
        _read_prompt(checkpoint, casts, prompt, top, json=json)
        return
    judgement = None
    if eval_data is not None:
        if target != "last":
            raise GramianError("--eval judges casts to the last layer; leave out --target next")
        judgement = judged(
            checkpoint, found, casts, eval_data, amount(eval_tokens, "--eval-tokens"), length, seed
        )
    branches = branch_casts(checkpoint, found, kind)
    if replace and (judgement is None or not branches):
        raise GramianError(
            "--replace needs --eval TEXT, and moments that were collected with --for lens"
        )
    replaced = {
        name: _replace(checkpoint, found, maps, str(eval_data), eval_tokens, length, seed)
        for name, maps in branches.items()
        if replace
    }
    summary = Summary.of(
        found,
        casts,
        layer_linearity(checkpoint, found),
        branches,
        judgement,
        early_exit(judgement, agreement=exit_agreement, length=length) if judgement else None,
        replaced,
    )
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.lens import lens_section

        section = lens_section(summary, command=command_line())
        write_page([section], plot, title=f"Gramian lens: {summary.model}", force=force)
    if json:
        print_json(summary.to_json())
        return
    for table in lens_tables(summary):
        console.print(table)
    if summary.exit:
        console.print(
            f"early exit: {summary.exit.layers_saved:.1f} of {summary.exit.depth} layers saved at "
            f"{summary.exit.agreement:.1%} agreement (asked {summary.exit.asked:.0%})"
        )
    if plot is not None:
        console.print(f"plot: {plot}")


lens.__doc__ = (lens.__doc__ or "") + EXAMPLE


def judged(
    checkpoint: Checkpoint,
    moments: MomentSet,
    casts: Casts,
    data: str,
    tokens: int,
    length: int,
    seed: int,
) -> Judgement:
    """Casts beside the full network on text that was not collected."""
    from gramian.data import documents
    from gramian.lens import judge, unseen

    batches = unseen(checkpoint, moments, documents(data), tokens=tokens, length=length, seed=seed)
    done = 0
    with bar("judging", tokens) as advance:

        def progress(more: int) -> None:
            nonlocal done
            done += more
            advance(done)

        return judge(checkpoint, casts, batches, rule=moments.recipe.rows, progress=progress)


def _replace(
    checkpoint: Checkpoint,
    moments: MomentSet,
    casts: Casts,
    data: str,
    tokens: str,
    length: int,
    seed: int,
) -> tuple[BranchScore, ...]:
    from gramian.data import documents
    from gramian.lens import judge_branches, unseen

    wanted = amount(tokens, "--eval-tokens")
    batches = unseen(checkpoint, moments, documents(data), tokens=wanted, length=length, seed=seed)
    with bar(f"replacing {casts.target}") as advance:
        return judge_branches(
            checkpoint, casts, batches, rule=moments.recipe.rows, progress=advance
        )


def branch_casts(
    checkpoint: Checkpoint, moments: MomentSet, kind: str = "affine"
) -> dict[str, Casts]:
    """Casts of attention and MLP, where the moments have them."""
    from gramian.lens import needs, solve

    if needs(checkpoint).missing(moments, checkpoint.blueprint).items:
        return {}
    with bar("sub-modules", 2 * checkpoint.blueprint.depth) as advance:
        depth = checkpoint.blueprint.depth
        found: dict[str, Casts] = {}
        for i, branch in enumerate(("attn", "mlp")):
            found[branch] = solve(
                checkpoint,
                moments,
                target=branch,  # type: ignore[arg-type]
                kind=kind,  # type: ignore[arg-type]
                progress=lambda done, _total, i=i: advance(i * depth + done),  # type: ignore[misc]
            )
        return found


def _read_prompt(
    checkpoint: Checkpoint, casts: Casts, prompt: str, top: int, *, json: bool
) -> None:
    from dataclasses import asdict

    from gramian.lens import read_prompt
    from gramian.report.tables import prompt_grid, prompt_top

    reading = read_prompt(checkpoint, casts, prompt, top=top)
    if json:
        print_json(asdict(reading))
        return
    console.print("first choice of every layer: [bold]cast[/] / [dim]identity[/]")
    for table in prompt_grid(reading):
        console.print(table)
    console.print(prompt_top(reading, len(reading.tokens) - 1))
