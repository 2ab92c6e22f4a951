"""From one embedding model to another: search an old index with the queries of a new model.

    python examples/bridge.py

The old index is WordLlama's (256 wide), the new model all-MiniLM-L6-v2 (384 wide); the texts are
paragraphs of the reference text of Python's standard library.
"""

from __future__ import annotations

import gramian as gm
from gramian.bridge import Bridge, top_k
from gramian.bridge.embedders import open_embedder


def paragraphs(count: int) -> list[str]:
    """Different paragraphs of prose."""
    found: dict[str, None] = {}
    for document in gm.documents("bundled:pydocs"):
        for part in document.text.split("\n\n"):
            text = " ".join(part.split())
            if 80 < len(text) < 400:
                found[text] = None
        if len(found) >= count:
            break
    return list(found)[:count]


def main() -> None:
    texts = paragraphs(2500)
    old, new = open_embedder("bundled:wordllama"), open_embedder("bundled:minilm")
    index = old(texts)
    bridge = Bridge().fit(new(texts[:2000]), index[:2000])
    print(f"{bridge.method_}: R² {bridge.r2_report_:.3f} ± {bridge.r2_spread_:.3f} on report")
    print({name: round(value, 3) for name, value in bridge.retrieval_report_.items()})
    query = "Which object can be used in async for?"
    places, scores = top_k(bridge.transform(new([query])), index, 3)
    print(query)
    for place, score in zip(places[0], scores[0], strict=True):
        print(f"  {score:.3f}  {texts[place][:90]}")


if __name__ == "__main__":
    main()
