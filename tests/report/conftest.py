"""A page with every kind of figure, and names that try to be more than names."""

from __future__ import annotations

import math

import pytest

from gramian.report import Figure, Section, Series, Table

HOSTILE = '</script><img src="https://example.org/x.png" onerror="alert(1)"> & <b>bold</b>'
LAYERS = [str(layer) for layer in range(30)] + ["final"]


def every_kind() -> list[Section]:
    curves = Figure(
        "Agreement <by> layer",
        "curves",
        "layer",
        "share of tokens",
        (
            Series("cast", range(30), [0.3 + i / 60 for i in range(30)], LAYERS[:30]),
            Series("gaps", range(30), [None if i % 7 == 3 else i / 40 for i in range(30)]),
            Series(HOSTILE, range(30), [0.5] * 30, errors=[0.01 * i for i in range(30)]),
        ),
        caption="Of tokens that were not collected.",
    )
    divergence = Figure(
        "Divergence",
        "curves",
        "layer",
        "nats",
        (Series("kl", range(5), [100.0, 10.0, 1.0, 0.1, float("nan")]),),
        log=True,
        command="gramian lens m.moments --model 'a model'",
    )
    square = Figure(
        "Every layer against every layer",
        "heat map",
        "layer",
        "layer",
        tuple(
            Series(
                name,
                LAYERS,
                [math.exp(-abs(i - j) / 8) for j in range(31)],
                [f"{i} against {j}" for j in range(31)],
            )
            for i, name in enumerate(LAYERS)
        ),
        value_title="CKA",
        limits=(0.0, 1.0),
    )
    signed = Figure(
        "Tall, both signs, with a hole",
        "heat map",
        "a network with a long name: sentence-transformers/all-MiniLM-L6-v2",
        "layer",
        tuple(
            Series(f"{i}.resid_pre", LAYERS[:6], [math.sin(i * j) if j else None for j in range(6)])
            for i in range(20)
        ),
        value_title="difference",
        limits=(-1.0, 1.0),
    )
    bars = Figure(
        "Rows",
        "bars",
        "fold",
        "rows",
        (
            Series("rows", ["train", "select", "report"], [800, 100, 100]),
            Series("sinks", ["train", "select", "report"], [8, 1, None]),
        ),
    )
    wide = Table(
        "A wide and long table",
        ("site", *(f"column {i}" for i in range(20))),
        tuple((f"{row}.resid_pre", *(row * i / 7 for i in range(20))) for row in range(60)),
        caption="It scrolls inside its box.",
    )
    words = Table("Settings", ("setting", "value"), (("model", HOSTILE), ("rows", 12_345)))
    return [
        Section(
            "Curves & bars",
            "curves",
            ("One paragraph.", HOSTILE),
            (curves, divergence, bars),
            (words,),
            f"gramian lens {'/very/long/path' * 9}/m.moments --model 'a model' --eval test.txt",
            ("few rows",),
        ),
        Section("Maps", "maps", (), (square, signed), (wide,), "gramian compare m.moments"),
        Section(HOSTILE, "empty"),
    ]


@pytest.fixture
def sections() -> list[Section]:
    return every_kind()
