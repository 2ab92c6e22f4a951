"""gramian compress sweep: quality against size, all methods side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from gramian.cli.compress.finishing import Model, Moments, percent
from gramian.cli.options import (
    Device,
    Dtype,
    Force,
    Json,
    bar,
    command_line,
    console,
    print_json,
    waiting,
)
from gramian.errors import refuse_existing

EXAMPLE = """
Examples:

    gramian collect MODEL --data valid.txt --for depth,mlp,heads,slice,rank,kv -o m.moments

    gramian compress sweep m.moments --model MODEL --eval test.txt --windows 16

    gramian compress sweep m.moments --model MODEL --eval test.txt --jobs mlp --plot sweep.html
"""


def sweep(
    moments: Moments,
    model: Model,
    eval: Annotated[str, typer.Option(help="Text to judge on, not what the moments have seen.")],
    jobs: Annotated[str, typer.Option(help="Some of depth, mlp, heads, slice, rank, kv.")] = (
        "depth,mlp,heads,slice,rank,kv"
    ),
    keep: Annotated[str, typer.Option(help="Shares to keep of what each method treats.")] = (
        "90%,80%"
    ),
    length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    windows: Annotated[int | None, typer.Option(help="How many windows; all by default.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also write a page with the curves.")] = None,
    text_field: Annotated[str, typer.Option(help="Field of a record with the text.")] = "text",
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Quality against size for all methods, from one collection; nothing is written but the plot.

    Every model is made in memory and read once. Each method counts what it treats, so compare along
    the columns of sizes. Perplexity is that of gramian evaluate; agreement is with the model as it
    was.
    """
    import torch

    from gramian import compress
    from gramian.data import documents
    from gramian.evaluate import check_causal
    from gramian.moments import MomentSet
    from gramian.networks import open as open_checkpoint

    if plot is not None:
        refuse_existing(plot, force=force)
    shares = [percent(part.strip(), "--keep") for part in keep.split(",")]
    names = [part.strip() for part in jobs.split(",")]
    found = MomentSet.open(moments)
    opened = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        opened.digest  # noqa: B018
    text = documents(eval, text_field=text_field).joined()
    encoded = opened.tokenizer(text, add_special_tokens=False, verbose=False)
    ids = torch.tensor(encoded["input_ids"])
    check_causal(opened.model, ids, model)
    with bar("compressing and reading") as advance:
        trials = [
            trial.to_json()
            for trial in compress.sweep(
                opened,
                found,
                ids,
                jobs=names,
                keep=shares,
                length=length,
                windows=windows,
                progress=advance,
            )
        ]
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.compress_sweep import compress_sweep_section

        section = compress_sweep_section(trials, command=command_line())
        write_page([section], plot, title=f"Gramian compress: {model}", force=force)
    if json:
        print_json(trials)
        return
    table = Table("job", "method", "keep", "size", "KV", "perplexity", "agreement")
    for trial in trials:
        table.add_row(
            trial["job"],
            trial["method"],
            f"{trial['keep']:.0%}",
            f"{trial['size_ratio']:.1%}",
            f"{trial['kv_ratio']:.1%}",
            "not made" if trial["perplexity"] is None else f"{trial['perplexity']:.2f}",
            "" if trial["agreement"] is None else f"{trial['agreement']:.1%}",
        )
    console.print(table)
    for trial in trials:
        if "note" in trial:
            where = f"{trial['job']} {trial['method']} at {trial['keep']:.0%}"
            console.print(f"{where}: {trial['note']}", soft_wrap=True)
    if plot is not None:
        console.print(f"plot: {plot}")


sweep.__doc__ = (sweep.__doc__ or "") + EXAMPLE
