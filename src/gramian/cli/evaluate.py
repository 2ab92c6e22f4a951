"""gramian evaluate: perplexity and size, and what changed against a base."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gramian.cli.options import Device, Dtype, Json, bar, console, print_json, waiting


def evaluate(
    model: Annotated[str, typer.Argument(help="A folder, a .gguf, a hub id, bundled:smollm2.")],
    data: Annotated[str, typer.Option(help="A .txt, .jsonl, .parquet, a folder, bundled:pydocs.")],
    length: Annotated[int, typer.Option(help="Tokens in a window.")] = 512,
    windows: Annotated[int | None, typer.Option(help="How many windows; all by default.")] = None,
    against: Annotated[str | None, typer.Option(help="Compare with this model.")] = None,
    text_field: Annotated[str, typer.Option(help="Field of a record with the text.")] = "text",
    device: Device = "cpu",
    dtype: Dtype = "float32",
    json: Json = False,
) -> None:
    """Perplexity on a text, in windows that see nothing of each other.

    The text is tokenized as a whole, without BOS; the first token of a window is not scored.

    Example:

        gramian evaluate pruned/ --data test.txt --windows 16 --against bundled:smollm2
    """
    import torch

    from gramian.data import documents
    from gramian.evaluate import check_causal, compare, perplexity, size
    from gramian.networks import open as open_checkpoint

    opened = open_checkpoint(model, device=device, dtype=dtype)
    with waiting(f"reading the weights of {model}"):
        opened.model  # noqa: B018
    text = documents(data, text_field=text_field).joined()
    encoded = opened.tokenizer(text, add_special_tokens=False, verbose=False)
    ids = torch.tensor(encoded["input_ids"])
    check_causal(opened.model, ids, model)
    document: dict[str, Any]
    with bar("evaluating") as advance:
        if against is None:
            found = perplexity(opened.model, ids, length=length, windows=windows, progress=advance)
            document = found.to_json()
        else:
            base = open_checkpoint(against, device=device, dtype=dtype)
            document = compare(
                opened.model, base.model, ids, length=length, windows=windows, progress=advance
            ).to_json()
    document |= size(opened.model).to_json()
    if json:
        print_json(document)
        return
    console.print(
        f"{model}: perplexity {document['perplexity']:.2f} over {document['tokens']:,} tokens, "
        f"{document['parameters']:,} parameters, {document['bytes'] / 1e6:,.1f} MB",
        soft_wrap=True,
    )
    if against is not None:
        console.print(
            f"against {against}: agreement {document['agreement']:.1%}, KL {document['kl']:.4f} "
            f"nats, {document['speed_ratio']:.2f} x its speed",
            soft_wrap=True,
        )
