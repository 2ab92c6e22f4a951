"""gramian collect: stream text through a network and keep its moments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gramian.cli.interrupt import stop_between_batches
from gramian.cli.options import (
    Device,
    Dtype,
    Force,
    Json,
    Seed,
    amount,
    bar,
    console,
    errors,
    print_json,
    waiting,
)
from gramian.errors import GramianError
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs
from gramian.networks.passes import Passes

if TYPE_CHECKING:
    from gramian.moments import Shares

EXAMPLE = """
Example:

    gramian collect bundled:smollm2 --data bundled:pydocs --for lens --tokens 32k -o m.moments
"""


def collect(
    model: Annotated[str, typer.Argument(help="A folder, a .gguf, a hub id, bundled:smollm2.")],
    data: Annotated[str, typer.Option(help="A .txt, .jsonl, .parquet, a folder, bundled:pydocs.")],
    purpose: Annotated[
        str, typer.Option("--for", help="Jobs, by comma: lens, inspect, linears.")
    ] = "lens",
    tokens: Annotated[str, typer.Option(help="Tokens to use, or 'all'.")] = "32k",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to write.")] = None,
    length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    batch_rows: Annotated[int, typer.Option(help="Tokens in a batch.")] = 2048,
    memory: Annotated[str | None, typer.Option(help="Budget for statistics, e.g. 4GB.")] = None,
    storage: Annotated[str, typer.Option(help="float64 or float32 on disk.")] = "float64",
    rows: Annotated[int, typer.Option(help="Raw rows to keep per site and fold.")] = 0,
    no_rows: Annotated[bool, typer.Option("--no-rows", help="Keep no raw row at all.")] = False,
    sinks: Annotated[bool, typer.Option(help="Keep sink rows apart.")] = True,
    shares: Annotated[
        str, typer.Option(help="Shares of the folds train, select and report.")
    ] = "0.8,0.1,0.1",
    text_field: Annotated[str, typer.Option(help="Field of a record with the text.")] = "text",
    chat_template: Annotated[str, typer.Option(help="off, or auto for the model's own.")] = "off",
    thinking: Annotated[bool | None, typer.Option("--thinking/--no-thinking")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it costs.")] = False,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Collect the moments of a network once; every job then reads them."""
    from gramian.data import documents
    from gramian.moments import RowRule
    from gramian.networks import collect as run
    from gramian.networks import open as open_checkpoint
    from gramian.networks.passes import plan_passes
    from gramian.networks.settings import Settings

    started = time.monotonic()
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"opening {model}"):
        checkpoint.blueprint  # noqa: B018 - an unknown architecture is refused before all else
    needs = needs_for(checkpoint, purpose)
    budget = None if memory is None else amount(memory, "--memory")
    wanted = None if tokens == "all" else amount(tokens, "--tokens")
    parts = fold_shares(shares)
    Settings(tokens=wanted, length=length, batch_rows=batch_rows, reservoir=rows, shares=parts)
    if dry_run:
        passes = plan_passes(checkpoint, needs, budget)
        _print_cost(checkpoint, needs, wanted, passes, batch_rows, json=json)
        return
    if no_rows and rows:
        raise GramianError(f"--no-rows and --rows {rows} contradict each other; give one of them")
    if out is None:
        raise GramianError("no place to write: give -o NAME.moments, or --dry-run for the cost")
    docs = documents(data, text_field=text_field)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    with bar("collecting", wanted) as advance, stop_between_batches() as check:

        def progress(done: int, total: int | None) -> None:
            advance(done, total)
            check()

        moments = run(
            checkpoint,
            docs,
            needs,
            out=out,
            memory=budget,
            force=force,
            progress=progress,
            tokens=wanted,
            length=length,
            batch_rows=batch_rows,
            seed=seed,
            shares=parts,
            rule=RowRule() if sinks else RowRule(first=False, factor=None),
            storage=storage,
            reservoir=rows,
            sink_rows=0 if no_rows else 512,
            chat_template=chat_template,
            thinking=thinking,
        )
    seconds = time.monotonic() - started
    total = sum(count["tokens"] for count in moments.counts.values())
    if json:
        print_json(
            {
                "path": str(out),
                "sites": len(moments.sites),
                "pairs": len(moments.pairs),
                "tokens": total,
                "seconds": round(seconds, 3),
            }
        )
        return
    console.print(
        f"{out}: {total:,} tokens, {len(moments.sites)} sites, {len(moments.pairs)} pairs, "
        f"{moments.nbytes / 1e6:,.0f} MB, {seconds:.0f} s"
    )
    if wanted is not None and total < wanted:
        errors.print(
            f"[yellow]note:[/] {data} has only {total:,} of the {wanted:,} tokens asked for"
        )


collect.__doc__ = (collect.__doc__ or "") + EXAMPLE


def fold_shares(text: str) -> Shares:
    """Read ``0.8,0.1,0.1``.

    Raises
    ------
    GramianError : not three positive numbers that sum to 1.
    """
    from gramian.moments import Shares

    try:
        train, select, report = (float(part) for part in text.split(","))
    except ValueError:
        raise GramianError(
            f"--shares {text!r}: expected three numbers for train, select and report, such as "
            "0.8,0.1,0.1"
        ) from None
    return Shares(train, select, report)


def needs_for(checkpoint: Checkpoint, purpose: str) -> Needs:
    """The needs of the jobs named in ``--for``.

    Raises
    ------
    GramianError : an unknown job.
    """
    from gramian import inspect, lens
    from gramian.networks.needs import linears

    jobs = {"lens": lens.needs, "inspect": inspect.needs, "linears": linears}
    needs = Needs.of(())
    for name in purpose.split(","):
        if name.strip() not in jobs:
            raise GramianError(f"--for {name.strip()!r}: expected one of {', '.join(jobs)}")
        needs = needs + jobs[name.strip()](checkpoint)
    return needs


def _print_cost(
    checkpoint: Checkpoint,
    needs: Needs,
    tokens: int | None,
    passes: Passes,
    batch_rows: int,
    *,
    json: bool,
) -> None:
    from gramian.networks.estimate import estimate

    found = estimate(checkpoint, needs, passes, tokens=tokens, batch_rows=batch_rows)
    if json:
        print_json(found.to_json())
        return
    console.print(str(found), soft_wrap=True)
