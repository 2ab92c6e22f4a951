"""What a bridge is worth on sentences that people judged: every ordered pair of three models.

    python -m benchmarks.bridge_quality FOLDER --cache CACHE [PART ...] [--json]

PARTs are retrieval, whitening, swap and unpaired; all by default.

FOLDER holds the tasks of semantic textual similarity (see ``sts.py``).

retrieval: queries are first sentences of pairs that scored at least 4; what they are to find is the
second one, in a corpus of 8,000 sentences. Bridges are fitted on sentences outside of both. nDCG@10
of the old model, of re-embedding, and of new queries bridged into the old index; with two stages
the new model reorders the 200 candidates of the bridge. "swap", new queries in the old index as
they are, needs equal widths, which these models do not have.

whitening: Spearman correlation of cosine and score over all scored pairs, before and after
whitening of sentence vectors, and of the static table by token frequencies.

unpaired: bridges between the vectors of one half of all sentences and those of the other half,
without a pair: a rotated copy of MiniLM, and other models; the share of 1,000 further sentences
that find their partner first.

swap: the verdicts of ``gramian bridge swapped`` on halves, domains, rotations and other models.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.sts import MODELS, Sentences, vectors
from gramian.bridge import Bridge, UnpairedBridge, top_k
from gramian.bridge.drift import IndexShards
from gramian.bridge.swapped import swapped
from gramian.moments import Moments
from gramian.solvers import whitening

Floats = NDArray[np.float32]
SIZES = (250, 500, 1000, 2000, 4000, 8000, 16000)
METHODS = ("auto", "ridge", "procrustes", "scaled", "shrunk")
QUERIES, CORPUS, CANDIDATES = 1500, 8000, 200


def deal(sentences: Sentences) -> tuple[Any, Any, Any, Any]:
    """Queries, their answers' places in the corpus, the corpus, and sentences to fit on."""
    draw = np.random.default_rng(0)
    good = np.flatnonzero(sentences.scores >= 4.0)
    pairs = sentences.pairs[draw.permutation(good)]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    _, first = np.unique(pairs[:, 0], return_index=True)
    pairs = pairs[np.sort(first)][:QUERIES]
    judged = np.unique(pairs)
    rest = draw.permutation(np.setdiff1d(np.arange(len(sentences.texts)), judged))
    answers = np.unique(pairs[:, 1])
    corpus = np.concatenate([answers, rest[: CORPUS - len(answers)]])
    place = {row: at for at, row in enumerate(corpus.tolist())}
    return (
        pairs[:, 0],
        np.asarray([place[row] for row in pairs[:, 1].tolist()]),
        corpus,
        rest[CORPUS - len(answers) :],
    )


def ndcg(found: NDArray[np.int64], answers: NDArray[np.int64]) -> NDArray[np.float64]:
    """nDCG@10 of one relevant row per query."""
    hit = found[:, :10] == answers[:, None]
    return np.where(hit.any(1), 1.0 / np.log2(hit.argmax(1) + 2), 0.0)


def two_stage(candidates: NDArray[np.int64], queries: Floats, corpus: Floats) -> NDArray[np.int64]:
    """The candidates of every query in the order of the new model."""
    found = np.empty_like(candidates)
    unit = corpus / np.linalg.norm(corpus, axis=1, keepdims=True)
    for row, some in enumerate(candidates):
        found[row] = some[np.argsort(-(unit[some] @ queries[row]), kind="stable")]
    return found


def retrieval(sentences: Sentences, rows: dict[str, Floats]) -> list[dict[str, Any]]:
    queries, answers, corpus, pool = deal(sentences)
    alone = {
        model: float(ndcg(top_k(x[queries], x[corpus], 10)[0], answers).mean())
        for model, x in rows.items()
    }
    found = []
    for old, new in permutations(rows, 2):
        x, y = rows[new], rows[old]
        for size in SIZES:
            entry: dict[str, Any] = {"old": old, "new": new, "pairs": size}
            entry |= {"keep old": alone[old], "re-embed": alone[new]}
            fitted = pool[:size]
            ids = [str(row) for row in fitted]
            for method in METHODS:
                started = time.perf_counter()
                bridge = Bridge(method).fit(x[fitted], y[fitted], ids)
                mapped = bridge.transform(x[queries])
                places, _ = top_k(mapped, y[corpus], CANDIDATES)
                entry[method] = float(ndcg(places, answers).mean())
                if method == "auto":
                    entry["chosen"] = bridge.method_
                    entry["seconds"] = time.perf_counter() - started
                    again = two_stage(places, x[queries], x[corpus])
                    entry["two stages"] = float(ndcg(again, answers).mean())
            found.append(entry)
            print(old, new, size, file=sys.stderr)
    return found


def whitened(sentences: Sentences, rows: dict[str, Floats]) -> list[dict[str, Any]]:
    kept = ~np.isnan(sentences.scores)
    pairs, scores = sentences.pairs[kept], sentences.scores[kept]

    def correlation(x: Floats) -> float:
        left, right = (x[pairs[:, side]].astype(np.float64) for side in (0, 1))
        norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        return float(spearmanr((left * right).sum(1) / np.maximum(norms, 1e-12), scores)[0])

    found = []
    for model, x in rows.items():
        moments = Moments.from_rows(x)
        entry: dict[str, Any] = {"model": model, "as it is": correlation(x)}
        entry["centred"] = correlation(x - moments.mean.numpy().astype(np.float32))
        entry["whitened"] = correlation(whitening(moments)(x).numpy())
        for rank in (128, 64):
            entry[f"whitened to {rank}"] = correlation(whitening(moments, rank=rank)(x).numpy())
        entry["whitened, ridge 1"] = correlation(whitening(moments, ridge=1.0)(x).numpy())
        found.append(entry)
    return found


def swaps(sentences: Sentences, rows: dict[str, Floats]) -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)
    minilm, wordllama = rows["bundled:minilm"], rows["bundled:wordllama"]
    order = draw.permutation(len(minilm))
    half, other = order[: len(order) // 2], order[len(order) // 2 :]
    turn = np.linalg.qr(draw.standard_normal((384, 384)))[0].astype(np.float32)
    tasks = np.asarray(sentences.tasks)

    def task(name: str) -> NDArray[np.int64]:
        return np.unique(sentences.pairs[np.char.startswith(tasks, name)])

    news, questions = task("2015_headlines"), task("2016_question")
    cases = {
        "MiniLM, two random halves": (minilm[half], minilm[other]),
        "MiniLM, headlines and questions": (minilm[news], minilm[questions]),
        "MiniLM and a rotated copy, same texts": (minilm, minilm @ turn),
        "MiniLM and a rotated copy, other texts": (minilm[half], minilm[other] @ turn),
        "MiniLM cut to 256 and WordLlama": (minilm[half][:, :256], wordllama[other]),
    }

    def shards(x: Floats) -> list[Moments]:
        found = IndexShards()
        found.update([str(row) for row in range(len(x))], np.ascontiguousarray(x))
        return found.full()

    found = []
    for name, (a, b) in cases.items():
        said = swapped(shards(a), shards(b))
        entry = {"case": name, "verdict": said.verdict, "shared": said.shared}
        found.append(entry | {"drift": said.drift.ratio})
    return found


def unpaired(sentences: Sentences, rows: dict[str, Floats]) -> list[dict[str, Any]]:
    draw = np.random.default_rng(0)
    order = draw.permutation(len(sentences.texts))
    further, one, other = order[:1000], order[1000::2], order[1001::2]
    minilm = rows["bundled:minilm"]
    turn = np.linalg.qr(draw.standard_normal((384, 384)))[0].astype(np.float32)
    cases = {"MiniLM and a rotated copy": (minilm, minilm @ turn)}
    cases |= {f"{new} to {old}": (rows[new], rows[old]) for old, new in permutations(rows, 2)}
    found = []
    for name, (x, y) in cases.items():
        started = time.perf_counter()
        bridge = UnpairedBridge(on_ambiguous="warn").fit(x[one], y[other])
        seconds = time.perf_counter() - started
        mapped, partners = bridge.transform(x[further]), y[further]
        places, _ = top_k(mapped - bridge.mean_out_, partners - bridge.mean_out_, 1)
        share = float((places[:, 0] == np.arange(len(further))).mean())
        found.append(
            {"case": name, "top-1": share, "confidence": bridge.confidence_, "seconds": seconds}
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", default=["retrieval", "whitening", "swap", "unpaired"])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    sentences = Sentences.read(arguments.folder)
    rows = {model: vectors(model, sentences.texts, arguments.cache) for model in MODELS}
    run = {"retrieval": retrieval, "whitening": whitened, "swap": swaps, "unpaired": unpaired}
    found = {part: run[part](sentences, rows) for part in arguments.parts}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for part, entries in found.items():
        print(part)
        for entry in entries:
            cells = (
                f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in entry.items()
            )
            print("  " + "  ".join(cells))


if __name__ == "__main__":
    main()
