"""gramian bridge fit: the map between two spaces, from items that both have."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

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
)
from gramian.errors import GramianError, refuse_existing

EXAMPLE = """
Examples:

    gramian bridge sample lancedb:store/docs -n 5000 --text-field text -o pairs.jsonl

    gramian bridge fit pairs.jsonl bundled:minilm -o bridge/

    gramian bridge fit old.npy new.npy --index old.npy -o bridge/

    gramian bridge fit bundled:wordllama bundled:minilm --texts texts.txt -o bridge/

    gramian bridge fit old.parquet#vector new.parquet#vector --method procrustes -o bridge/ --json

    gramian bridge fit pairs.jsonl bundled:minilm --query-pairs queries.txt -o bridge/

    gramian bridge fit old.npy new.npy --unpaired -o bridge/

OLD and NEW are vectors (x.npy, x.npz#name, x.parquet#column, x.jsonl#field, lancedb:FOLDER/TABLE,
qdrant:FOLDER/COLLECTION, faiss:FILE, postgresql://…) or models (bundled:minilm, a folder, a Hugging
Face id, openai:MODEL@URL), which embed --texts or the texts that the other side carries. Rows
belong together by id; files without ids by row number.

The bridge takes new vectors to the old space, so that new queries search the old index and nothing
is written to it; --direction old_to_new goes the other way.

Queries are not documents: they are shorter and often have a prompt of their own. --query-pairs FILE
fits on them beside the documents, and chooses and reports on them alone; it holds texts, which both
models embed with --old-query-prefix and --new-query-prefix, or JSON lines with id, old and new.

--unpaired matches two sets of vectors of different texts, if they are of the same kind.
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
    pairs: Annotated[
        int | None, typer.Option(help="Use no more pairs (with --unpaired: rows) than this.")
    ] = None,
    query_pairs: Annotated[
        Path | None, typer.Option(help="Queries: texts, or .jsonl with fields id, old, new.")
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="The old vectors it is to serve: do the pairs look like it?")
    ] = None,
    trim: Annotated[
        bool, typer.Option("--trim", help="Find wrong pairs and leave them out.")
    ] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Also fit on fewer pairs: how many are enough?")
    ] = False,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="The two sides are of different texts.")
    ] = False,
    old_model: Annotated[
        str | None, typer.Option(help="Model of OLD, where its vectors do not say.")
    ] = None,
    new_model: Annotated[
        str | None, typer.Option(help="Model of NEW, where its vectors do not say.")
    ] = None,
    old_prefix: Annotated[str, typer.Option(help="Prompt before texts of the old model.")] = "",
    new_prefix: Annotated[str, typer.Option(help="Prompt before texts of the new model.")] = "",
    old_query_prefix: Annotated[
        str | None, typer.Option(help="Prompt before --query-pairs; default: as before texts.")
    ] = None,
    new_query_prefix: Annotated[
        str | None, typer.Option(help="Prompt before --query-pairs; default: as before texts.")
    ] = None,
    id_field: Annotated[str, typer.Option(help="Column of ids.")] = "id",
    cache: Annotated[
        Path | None,
        typer.Option(help="Keep what endpoints answer in this folder; default: until it is done."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
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
    from gramian.cli.bridge.fit_tables import print_fit
    from gramian.cli.bridge.sides import Opened, Side, texts_for

    for path in (output, plot):
        if path is not None:
            refuse_existing(path, force=force)
    paired_only = {
        "--method": method != "auto",
        "--lam": lam is not None,
        "--rank": rank is not None,
        "--delta": delta is not None,
        "--query-pairs": query_pairs is not None,
        "--index": index is not None,
        "--trim": trim,
        "--curve": curve,
    }
    given = [name for name, is_given in paired_only.items() if is_given]
    if unpaired and given:
        raise GramianError(f"--unpaired knows no pairs, which {', '.join(given)} is for; leave out")
    answers = cache or output.with_name(f".{output.name}.answers")
    opened = Opened(id_field=id_field, device=device, dtype=dtype, cache=answers)
    names = (
        Side("old", old, old_model, old_prefix, old_query_prefix),
        Side("new", new, new_model, new_prefix, new_query_prefix),
    )
    found = texts_for((old, new), texts, id_field=id_field)
    sides = (opened.source(names[0], found), opened.source(names[1], found))
    known = (names[0].known, names[1].known)
    with bar("fitting") as advance:
        if unpaired:
            from gramian.bridge.clouds import build_unpaired
            from gramian.bridge.unpaired import UnpairedBridge

            matcher = UnpairedBridge(random_state=seed)
            if pairs is not None:
                matcher.set_params(pool_rows=pairs)
            built = build_unpaired(
                *sides,
                direction=direction,
                estimator=matcher,
                known=known,
                progress=advance,
            )
        else:
            asked = None
            if query_pairs is not None:
                asked = (
                    opened.queries(query_pairs, names[0], sides[0]),
                    opened.queries(query_pairs, names[1], sides[1]),
                )
            # Full moments of the target tell a wrong direction and a drift of the old side.
            estimator = Bridge(
                method,
                lam=lam,
                rank=rank,
                delta=delta,
                trim=trim,
                target_moments="full",
                random_state=seed,
            )
            built = build(
                *sides,
                direction=direction,
                estimator=estimator,
                limit=pairs,
                queries=asked,
                index=None if index is None else opened.source(Side("old", index), None),
                known=known,
                curve=curve,
                keep_moments=moments,
                progress=advance,
            )
    document = built.to_json()
    built.bridge.save(output, force=force)
    if cache is None and answers.is_dir():
        shutil.rmtree(answers)
    if plot is not None:
        from gramian.report import write_page
        from gramian.report.sections.bridge_fit import bridge_fit_section

        section = bridge_fit_section(document, command=command_line())
        write_page([section], plot, title=f"Gramian bridge: {output}", force=force)
    if json:
        print_json(document | {"path": str(output)})
        return
    print_fit(document, output)
    for warning in document["warnings"]:
        errors.print(f"[yellow]note:[/] {warning}", soft_wrap=True)
    if plot is not None:
        console.print(f"plot: {plot}")


fit.__doc__ = (fit.__doc__ or "") + EXAMPLE
