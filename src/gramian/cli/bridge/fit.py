"""gramian bridge fit: the map between two spaces, from items that both have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from gramian.cli.options import Device, Dtype, Force, Json, bar, console, errors, print_json
from gramian.errors import GramianError, refuse_existing

EXAMPLE = """
Examples:

    gramian bridge sample lancedb:store/docs -n 5000 --text-field text -o pairs.jsonl

    gramian bridge fit pairs.jsonl bundled:minilm -o bridge/

    gramian bridge fit old.npy new.npy --index old.npy -o bridge/

    gramian bridge fit bundled:wordllama bundled:minilm --texts texts.txt -o bridge/

    gramian bridge fit old.parquet#vector new.parquet#vector --method procrustes -o bridge/ --json

OLD and NEW are vectors (x.npy, x.npz#name, x.parquet#column, x.jsonl#field, lancedb:FOLDER/TABLE,
qdrant:FOLDER/COLLECTION, faiss:FILE, postgresql://…) or models (bundled:minilm, a folder, a Hugging
Face id, openai:MODEL@URL), which embed --texts or the texts that the other side carries. Rows
belong together by id; files without ids by row number.

The bridge takes new vectors to the old space, so that new queries search the old index and nothing
is written to it; --direction old_to_new goes the other way.
"""


def fit(
    old: Annotated[str, typer.Argument(help="Vectors of the old model, or the model.")],
    new: Annotated[str, typer.Argument(help="Vectors of the new model, or the model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the bridge.")],
    texts: Annotated[
        Path | None, typer.Option(help="Texts for models: .jsonl, .tsv (id, text) or .txt.")
    ] = None,
    direction: Annotated[
        str, typer.Option(help="query_to_old (new to old) or old_to_new.")
    ] = "query_to_old",
    method: Annotated[
        str,
        typer.Option(
            help="auto, ridge, procrustes, scaled, shrunk, rotation, reduced_rank, cca, relaxed."
        ),
    ] = "auto",
    lam: Annotated[
        float | None, typer.Option(help="Ridge over the mean eigenvalue; default: chosen.")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Of reduced_rank and cca.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of relaxed: how far from a rotation.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(help="Use no more pairs than this.")] = None,
    index: Annotated[
        str | None, typer.Option(help="The old vectors it is to serve: do the pairs look like it?")
    ] = None,
    trim: Annotated[
        bool, typer.Option("--trim", help="Find wrong pairs and leave them out.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also fit on fewer pairs: how many are enough?")
    ] = False,
    old_prefix: Annotated[str, typer.Option(help="Prompt before texts of the old model.")] = "",
    new_prefix: Annotated[str, typer.Option(help="Prompt before texts of the new model.")] = "",
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    moments: Annotated[
        bool, typer.Option("--moments/--no-moments", help="Keep the moments of the pairs.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the folds.")] = 0,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a bridge between two embedding spaces on items that both have."""
    from gramian.bridge import Bridge
    from gramian.bridge.building import build
    from gramian.cli.bridge.sides import side, texts_for

    refuse_existing(output, force=force)
    if curve and trim:
        raise GramianError("--curve and --trim each read the pairs in their own way; give one")
    found = texts_for((old, new), texts)
    options: dict[str, Any] = {"id_field": id_field, "device": device, "dtype": dtype}
    sides = (
        side(old, found, prefix=old_prefix, **options),
        side(new, found, prefix=new_prefix, **options),
    )
    # Full moments of the target tell a wrong direction, and the old side of the pairs apart.
    estimator = Bridge(
        method,
        lam=lam,
        rank=rank,
        delta=delta,
        trim=trim,
        target_moments="full",
        random_state=seed,
    )
    with bar("fitting") as advance:
        built = build(
            *sides,
            direction=direction,
            estimator=estimator,
            limit=pairs,
            index=None if index is None else side(index, None, id_field=id_field),
            keep_moments=moments,
            progress=advance,
        )
    document = built.to_json()
    if curve:
        document["curve"] = _curve(sides, direction, pairs, method, seed)
    built.bridge.save(output, force=force)
    if json:
        print_json(document | {"path": str(output)})
        return
    _print(document, output)


def _curve(
    sides: tuple[Any, Any], direction: str, limit: int | None, method: str, seed: int
) -> dict[str, Any]:
    from gramian.bridge import learning_curve
    from gramian.bridge.pairing import Pairs

    old, new = sides
    source, target = (new, old) if direction == "query_to_old" else (old, new)
    ids, x, y = Pairs.of(source, target, limit=limit).read()
    return learning_curve(x, y, ids, method=method, random_state=seed).to_json()


def _print(document: dict[str, Any], output: Path) -> None:
    console.print(
        f"[bold]{output}[/]: {document['method']}, {document['dim_from']} -> "
        f"{document['dim_to']}, {document['direction']}, {document['pairs']:,} pairs",
        soft_wrap=True,
    )
    table = Table()
    for column in ("on pairs set aside", "value"):
        table.add_column(column, justify="right" if column == "value" else "left")
    spread = document["r2_spread"]
    if document["r2_report"] is not None:
        beside = "" if spread is None else f" ± {spread:.3f}"
        table.add_row("R²", f"{document['r2_report']:.3f}{beside}")
    if document["cosine_report"] is not None:
        table.add_row("cosine with the partner", f"{document['cosine_report']:.3f}")
    for name, value in document["retrieval_report"].items():
        table.add_row(name, f"{value:.3f}")
    bound = document["bound"]
    if bound is not None and not bound["vacuous"]:
        table.add_row("cosine that a rotation reaches at least", f"{bound['cosine']:.3f}")
    console.print(table)
    best: dict[str, dict[str, Any]] = {}
    for candidate in document["candidates"]:
        held = best.setdefault(candidate["method"], candidate)
        if (candidate.get("score") or 0) > (held.get("score") or 0):
            best[candidate["method"]] = candidate
    if len(best) > 1:
        console.print(_table("the best of each family on select", list(best.values())))
    if "curve" in document:
        console.print(_table("on fewer pairs", document["curve"]["records"]))
        console.print(document["curve"]["note"], soft_wrap=True)
    for warning in document["warnings"]:
        errors.print(f"[yellow]note:[/] {warning}", soft_wrap=True)


def _table(title: str, records: list[dict[str, Any]]) -> Table:
    known = ("method", "pairs", "lam", "score", "recall@1", "mrr", "overlap@10", "r2_report")
    table = Table(title=title)
    shown = [name for name in known if any(record.get(name) is not None for record in records)]
    for name in shown:
        table.add_column(name, justify="left" if name == "method" else "right")
    for record in records:
        table.add_row(*(_cell(record.get(name)) for name in shown))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


fit.__doc__ = (fit.__doc__ or "") + EXAMPLE
