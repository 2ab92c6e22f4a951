"""gramian bridge judge: is the bridge good enough, or must everything be embedded again?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gramian.cli.options import (
    Device,
    Dtype,
    Force,
    Json,
    bar,
    command_line,
    console,
    errors,
    print_json,
    waiting,
)
from gramian.errors import GramianError, refuse_existing

if TYPE_CHECKING:
    from gramian.bridge.judging import Judgement

EXAMPLE = """
Examples:

    gramian bridge judge bridge/ --queries queries.tsv --corpus lancedb:store/docs

    gramian bridge judge bridge/ --queries queries.jsonl --relevance qrels.txt --corpus docs.jsonl

    gramian bridge judge bridge/ --queries q.tsv --relevance qrels.txt --corpus lancedb:store/docs
    --sample 0 --no-reindex

    gramian bridge judge bridge/ --old-queries q_old.npy --new-queries q_new.npy
    --corpus old.npy --new-corpus new.npy --json

Compared on the same queries and items: the old model, new queries in the old index as it is
(swap), the bridge, two stages (the bridge finds candidates, the new model ranks them again), and
re-embedding. With --relevance by recall, nDCG@10 and MRR; without by the overlap with what the new
model finds, which says how near a system is to the new model, not that the new model is better.

The verdict: keep_old unless a change is better than the old model by --margin and its paired 95 %
interval lies above 0; of the better ones the cheapest that keeps --retain of re-embedding: bridge,
two_stage; else reindex. Fewer than 20 queries cannot tell.

Models and prompts are those that the bridge recorded, unless they are given here.
"""
SAMPLE = 5000


def judge(
    bridge: Annotated[Path, typer.Argument(help="A folder written by gramian bridge fit.")],
    queries: Annotated[
        Path | None, typer.Option(help="Texts of queries: .jsonl, .tsv (id, text) or .txt.")
    ] = None,
    relevance: Annotated[
        Path | None, typer.Option(help="Judgements in the TREC format: query 0 item grade.")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="The old index: vectors, or texts. Default: what was fitted on."),
    ] = None,
    texts: Annotated[
        Path | None, typer.Option(help="Texts of the corpus by id, where it carries none.")
    ] = None,
    old_queries: Annotated[
        str | None, typer.Option(help="Vectors of the queries by the old model.")
    ] = None,
    new_queries: Annotated[
        str | None, typer.Option(help="Vectors of the queries by the new model.")
    ] = None,
    new_corpus: Annotated[
        str | None, typer.Option(help="Vectors of the corpus, or of some of it, by the new model.")
    ] = None,
    old_model: Annotated[str | None, typer.Option(help="Default: what the bridge records.")] = None,
    new_model: Annotated[str | None, typer.Option(help="Default: what the bridge records.")] = None,
    old_query_prefix: Annotated[
        str | None, typer.Option(help="Prompt before queries of the old model; default: recorded.")
    ] = None,
    new_query_prefix: Annotated[
        str | None, typer.Option(help="Prompt before queries of the new model; default: recorded.")
    ] = None,
    old_prefix: Annotated[
        str | None, typer.Option(help="Prompt before documents; default: recorded.")
    ] = None,
    new_prefix: Annotated[
        str | None, typer.Option(help="Prompt before documents; default: recorded.")
    ] = None,
    text_field: Annotated[str | None, typer.Option(help="Column of texts.")] = None,
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    sample: Annotated[
        int, typer.Option(help="Items to compare on; relevant ones are among them. 0: all.")
    ] = SAMPLE,
    reindex: Annotated[
        bool,
        typer.Option("--reindex/--no-reindex", help="Off: embed candidates of two stages only."),
    ] = True,
    k: Annotated[int, typer.Option("-k", "--k", help="Depth of recall and overlap.")] = 10,
    candidates: Annotated[int, typer.Option(help="Of the first of two stages.")] = 200,
    metric: Annotated[str, typer.Option(help="cosine, dot or l2.")] = "cosine",
    csls: Annotated[
        int, typer.Option(help="Also search the bridge by CSLS with so many neighbours.")
    ] = 0,
    margin: Annotated[float, typer.Option(help="Gain below which nothing is worth it.")] = 0.01,
    retain: Annotated[float, typer.Option(help="Share of re-embedding that is enough.")] = 0.9,
    bootstrap: Annotated[int, typer.Option(help="Resamples of the queries.")] = 1000,
    calibration: Annotated[
        Path | None, typer.Option(help="Write the table that takes bridged scores to old ones.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Refuse vectors of another model.")
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    seed: Annotated[int, typer.Option(help="Of the sample and the resamples.")] = 0,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare a bridge with keeping the old model and with re-embedding, and advise."""
    from gramian.bridge import open_bridge
    from gramian.bridge.judging import judge as run
    from gramian.bridge.judging import read_qrels
    from gramian.bridge.judging.inputs import gather
    from gramian.cli.bridge.judge_sources import Given, sources

    for path in (plot, calibration):
        if path is not None:
            refuse_existing(path, force=force)
    saved = open_bridge(bridge)
    qrels = None if relevance is None else read_qrels(relevance)
    found = sources(
        saved,
        Given(
            queries=queries,
            corpus=corpus,
            texts=texts,
            vectors={"old": old_queries, "new": new_queries},
            new_corpus=new_corpus,
            models={"old": old_model, "new": new_model},
            query_prefixes={"old": old_query_prefix, "new": new_query_prefix},
            prefixes={"old": old_prefix, "new": new_prefix},
            text_field=text_field,
            id_field=id_field,
            device=device,
            dtype=dtype,
        ),
    )
    with bar("reading and embedding") as advance:
        arguments: dict[str, Any] = gather(
            saved,
            **found,
            qrels=qrels,
            sample=sample or None,
            reindex=reindex,
            seed=seed,
            progress=advance,
        )
    with waiting("judging"):
        judgement = run(
            saved,
            **arguments,
            metric=metric,
            k=k,
            candidates=candidates,
            bootstrap=bootstrap,
            margin=margin,
            retain=retain,
            csls=csls,
            check=check,
            seed=seed,
        )
    if calibration is not None:
        if judgement.shift is None:
            raise GramianError("--calibration needs queries of the old model; give --old-model")
        judgement.shift.calibration.save(calibration, force=force)
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.bridge import bridge_section

        section = bridge_section(judgement, command=command_line())
        write_page([section], plot, title="Gramian bridge judge", force=force)
    if json:
        print_json(judgement.to_json())
        return
    _print(judgement)
    for what, path in {"calibration": calibration, "plot": plot}.items():
        if path is not None:
            console.print(f"{what}: {path}", soft_wrap=True)


def _print(judgement: Judgement) -> None:
    from gramian.report.bridge_tables import judgement_table

    console.print(judgement_table(judgement))
    console.print(f"[bold]{judgement.verdict}[/]: ", end="")
    console.print(judgement.reason, soft_wrap=True, markup=False, highlight=False)
    shift = judgement.shift
    if shift is not None:
        beside = ""
        if shift.correlation is not None:
            beside = f"; rank correlation {shift.correlation:.2f} on the same items"
        after = "" if shift.ks_calibrated is None else f", {shift.ks_calibrated:.2f} calibrated"
        console.print(
            f"scores: median {shift.median_old:.3f} (old), {shift.median_bridge:.3f} (bridge); "
            f"KS distance {shift.ks:.2f}{after}{beside}",
            soft_wrap=True,
        )
    for warning in judgement.warnings:
        errors.print(f"[yellow]note:[/] {warning}", soft_wrap=True)


judge.__doc__ = (judge.__doc__ or "") + EXAMPLE
