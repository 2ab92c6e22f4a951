"""Sentences of the semantic textual similarity tasks, embedded once and kept.

    python benchmarks/sts.py FOLDER --cache CACHE [--models bundled:minilm ...]

FOLDER holds ``*.tsv`` with a score (may be empty) and two sentences in every line. Vectors are kept
in CACHE as one ``.npy`` per model, and read from there the next time.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MODELS = ("bundled:minilm", "bundled:wordllama", "bundled:smollm2")


@dataclass(frozen=True)
class Sentences:
    """All different sentences, and the pairs that people scored."""

    texts: list[str]
    pairs: NDArray[np.int64]
    """(n, 2) places of the two sentences."""
    scores: NDArray[np.float64]
    """0 to 5; NaN where there is none."""
    tasks: list[str]
    """The file that each pair is from."""

    @classmethod
    def read(cls, folder: Path) -> Sentences:
        places: dict[str, int] = {}
        pairs, scores, tasks = [], [], []
        for path in sorted(folder.glob("*.tsv")):
            for line in path.read_text("utf-8").splitlines():
                score, left, right = line.split("\t")[:3]
                if not left.strip() or not right.strip():
                    continue
                found = [places.setdefault(text, len(places)) for text in (left, right)]
                pairs.append(found)
                scores.append(float(score) if score else np.nan)
                tasks.append(path.stem)
        return cls(list(places), np.asarray(pairs), np.asarray(scores), tasks)


def vectors(model: str, texts: list[str], cache: Path) -> NDArray[np.float32]:
    """One row for every text, from the cache where it has them."""
    from gramian.bridge.embedders import open_embedder

    key = hashlib.sha256("\n".join([model, *texts]).encode()).hexdigest()[:16]
    path = cache / f"{model.replace(':', '-')}-{key}.npy"
    if path.is_file():
        found: NDArray[np.float32] = np.load(path)
        return found
    cache.mkdir(parents=True, exist_ok=True)
    found = open_embedder(model)(texts, progress=lambda done: print(model, done, end="\r"))
    np.save(path, found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    arguments = parser.parse_args()
    sentences = Sentences.read(arguments.folder)
    print(f"{len(sentences.texts):,} sentences, {len(sentences.pairs):,} pairs")
    for model in arguments.models:
        print(model, vectors(model, sentences.texts, arguments.cache).shape)


if __name__ == "__main__":
    main()
