"""gramian collect: stream text through a network and keep its moments."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from gramian.cli.interrupt import stop_between_batches
from gramian.cli.machines import Machines, missing
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
from gramian.cli.purposes import fold_shares, joint_needs, needs_for
from gramian.errors import GramianError, refuse_existing
from gramian.networks.checkpoint import Checkpoint
from gramian.networks.needs import Needs
from gramian.networks.passes import Mode, Passes

EXAMPLE = """
Examples:

    gramian collect bundled:smollm2 --data bundled:pydocs --for lens --tokens 32k -o m.moments

    gramian collect MODEL --data corpus/ --tokens 10M --shard 1/4 -o part1.moments

    gramian collect MODEL_A MODEL_B --data bundled:pydocs --for compare -o ab.moments
"""


def collect(
    model: Annotated[str, typer.Argument(help="A folder, a .gguf, a hub id, bundled:smollm2.")],
    data: Annotated[str, typer.Option(help="A .txt, .jsonl, .parquet, a folder, bundled:pydocs.")],
    other: Annotated[
        str | None, typer.Argument(help="A second network, in the same pass, for compare.")
    ] = None,
    purpose: Annotated[
        str, typer.Option("--for", help="Jobs, by comma: lens, inspect, compare, rank, linears.")
    ] = "lens",
    tokens: Annotated[str, typer.Option(help="Tokens to use, or 'all'.")] = "32k",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to write.")] = None,
    length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    batch_rows: Annotated[int, typer.Option(help="Tokens in a batch.")] = 2048,
    memory: Annotated[str | None, typer.Option(help="Budget for statistics, e.g. 4GB.")] = None,
    mode: Annotated[
        str, typer.Option(help="auto, or stream, windows, blockwise, spill: how to keep to it.")
    ] = "auto",
    storage: Annotated[str, typer.Option(help="float64 or float32 on disk.")] = "float64",
    rows: Annotated[int, typer.Option(help="Raw rows to keep per site and fold.")] = 0,
    no_rows: Annotated[bool, typer.Option("--no-rows", help="Keep no raw row at all.")] = False,
    sinks: Annotated[bool, typer.Option(help="Keep sink rows apart.")] = True,
    shares: Annotated[
        str, typer.Option(help="Shares of the folds train, select and report.")
    ] = "0.8,0.1,0.1",
    text_field: Annotated[str, typer.Option(help="Field of a record with the text.")] = "text",
    chat_template: Annotated[str, typer.Option(help="off, or auto for the model's own.")] = "off",
    thinking: Annotated[
        bool | None, typer.Option("--thinking/--no-thinking", help="For templates that can.")
    ] = None,
    align: Annotated[
        str, typer.Option(help="Rows of two networks: auto, tokens, characters, documents.")
    ] = "auto",
    inside: Annotated[
        bool, typer.Option("--inside", help="Of two networks, also the pairs within each.")
    ] = False,
    shard: Annotated[
        str | None, typer.Option(help="i/n: part i of n, for n machines; gramian add joins them.")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="On a Ray cluster (RAY_ADDRESS), or all CPUs here.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="With --ray: how many; by default as many as find room.")
    ] = None,
    cpus: Annotated[int | None, typer.Option(help="With --ray: CPUs of each worker, 1.")] = None,
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
    from gramian.networks import collect as collect_one
    from gramian.networks import collect_on_ray, collect_pair
    from gramian.networks import open as open_checkpoint
    from gramian.networks.passes import plan_passes
    from gramian.networks.settings import Settings
    from gramian.networks.spool import free_bytes

    started = time.monotonic()
    machines = Machines.of(shard, ray, workers, cpus, pair=other is not None)
    budget = None if memory is None else amount(memory, "--memory")
    wanted = None if tokens == "all" else amount(tokens, "--tokens")
    settings = Settings(
        tokens=wanted,
        length=length,
        batch_rows=batch_rows,
        seed=seed,
        shares=fold_shares(shares),
        rule=RowRule() if sinks else RowRule(first=False, factor=None),
        storage=storage,
        chat_template=chat_template,  # type: ignore[arg-type]
        thinking=thinking,
        reservoir=rows,
        sink_rows=0 if no_rows else Settings.sink_rows,
        shard=machines.shard,
    )
    own = settings.own_tokens
    if mode not in get_args(Mode):
        raise GramianError(f"--mode {mode}: expected one of {', '.join(get_args(Mode))}")
    if not dry_run:
        _check_place(out, force)
        if no_rows and rows:
            raise GramianError(f"--no-rows and --rows {rows} contradict each other; give one")
    checkpoint = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"opening {model}"):
        checkpoint.blueprint  # noqa: B018 - an unknown architecture is refused before all else
    second = None if other is None else open_checkpoint(other, device=device, dtype=dtype)
    joint = None if second is None else joint_needs(checkpoint, second, purpose, inside=inside)
    if second is not None and mode != "auto":
        raise GramianError(f"--mode {mode}: two networks are collected in passes; leave it out")
    needs = needs_for(checkpoint, purpose)
    if dry_run and second is not None and joint is not None:
        cost = joint.cost(checkpoint, second, budget, own)
        print_json(cost.to_json()) if json else console.print(str(cost), soft_wrap=True)
        return
    if dry_run:
        place = Path() if out is None else out.parent
        passes = plan_passes(
            checkpoint,
            needs,
            budget,
            mode=cast(Mode, mode),
            tokens=own,
            disk=free_bytes(place),
        )
        _print_cost(checkpoint, needs, own, passes, batch_rows, json=json)
        return
    assert out is not None
    docs = documents(data, text_field=text_field)
    with waiting(f"reading the weights of {model}"):
        checkpoint.digest  # noqa: B018
    if second is not None:
        with waiting(f"reading the weights of {other}"):
            second.digest  # noqa: B018
    run = partial(collect_one, checkpoint, docs, needs, mode=cast(Mode, mode))
    if machines.ray:
        run = partial(
            collect_on_ray,
            checkpoint,
            docs,
            needs,
            mode=cast(Mode, mode),
            workers=workers,
            cpus=1 if cpus is None else cpus,
        )
    if second is not None:
        run = partial(collect_pair, checkpoint, second, docs, inside=inside, align=align)
    with bar("collecting", own) as advance, stop_between_batches() as check:

        def progress(done: int, total: int | None) -> None:
            advance(done, total)
            check()

        moments = run(
            out=out,
            memory=budget,
            force=force,
            progress=progress,
            **vars(settings),
        )
    seconds = time.monotonic() - started
    total = sum(count["tokens"] for count in moments.counts.values())
    held = {} if moments.shards is None else {"shards": moments.shards.to_json()}
    if json:
        print_json(
            {
                "path": str(out),
                "sites": len(moments.sites),
                "pairs": len(moments.pairs),
                "tokens": total,
                "seconds": round(seconds, 3),
                **held,
            }
        )
        return
    console.print(
        f"{out}: {total:,} tokens, {len(moments.sites)} sites, {len(moments.pairs)} pairs, "
        f"{moments.nbytes / 1e6:,.0f} MB, {seconds:.0f} s",
        soft_wrap=True,
    )
    if moments.shards is not None:
        console.print(missing(moments, out), soft_wrap=True, highlight=False)
    elif wanted is not None and total < wanted:
        errors.print(
            f"[yellow]note:[/] {data} has only {total:,} of the {wanted:,} tokens asked for"
        )


collect.__doc__ = (collect.__doc__ or "") + EXAMPLE


def _check_place(out: Path | None, force: bool) -> None:
    """Refuse before the model is read what would be refused after it."""
    if out is None:
        raise GramianError("no place to write: give -o NAME.moments, or --dry-run for the cost")
    refuse_existing(out, force=force)


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
