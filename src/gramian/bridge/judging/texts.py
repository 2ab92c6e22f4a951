"""Texts with ids, from files of queries or of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gramian.errors import GramianError
from gramian.moments.fields import parse_json

SUFFIXES = (".jsonl", ".tsv", ".txt")
ID_KEYS = ("id", "_id", "query_id", "qid", "doc_id", "docid")
TEXT_KEYS = ("text", "query", "question", "contents", "content")


@dataclass(frozen=True)
class Texts:
    """Texts and their ids, in the order of the file.

    Raises
    ------
    GramianError : unequal numbers, or an id that appears twice.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.texts):
            raise GramianError(f"{len(self.ids)} ids and {len(self.texts)} texts")
        unique(self.ids, "texts")

    def __len__(self) -> int:
        return len(self.ids)


def unique(ids: Sequence[str], what: str) -> dict[str, int]:
    """Id -> position.

    Raises
    ------
    GramianError : an id appears twice.
    """
    positions: dict[str, int] = {}
    for position, name in enumerate(ids):
        if positions.setdefault(name, position) != position:
            raise GramianError(
                f"{what}: the id {name!r} appears twice, at {positions[name]} and {position} "
                "(counted from 0); ids must be unique"
            )
    return positions


def read_texts(path: str | Path) -> Texts:
    """Read texts with ids.

    ``.jsonl``: an object a line with ``id`` (or ``_id``, ``query_id`` ...; else the line number)
    and ``text`` (or ``query`` ...; of ``title`` and ``text`` both are joined by a space).
    ``.tsv``: id, tab, text. ``.txt``: a text a line, whose id is the number of the line from 1.
    Empty lines are skipped.

    Raises
    ------
    GramianError : another suffix, no such file, no text, a line (which is named) without a text,
        or an id that appears twice.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise GramianError(f"{path}: expected a file of texts, {', '.join(SUFFIXES)}")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise GramianError(f"{path}: {error.strerror}; pass a file of texts") from error
    except UnicodeDecodeError as error:
        raise GramianError(f"{path}: not UTF-8 text ({error})") from error
    ids, texts = [], []
    for number, raw in enumerate(lines, start=1):
        line = raw.rstrip("\r")
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        if path.suffix == ".jsonl":
            name, text = _record(line, number, where)
        elif path.suffix == ".tsv":
            name, tab, text = line.partition("\t")
            if not tab or not name.strip():
                raise GramianError(f"{where}: expected an id, a tab and a text")
        else:
            name, text = str(number), line
        if not text.strip():
            raise GramianError(f"{where}: the text is empty; leave the line out")
        ids.append(name.strip())
        texts.append(text)
    if not ids:
        raise GramianError(f"{path} holds no text")
    return Texts(tuple(ids), tuple(texts))


def _record(line: str, number: int, where: str) -> tuple[str, str]:
    record = parse_json(line.encode(), where)
    if not isinstance(record, dict):
        raise GramianError(f"{where}: expected an object with id and text")
    name = next((record[key] for key in ID_KEYS if key in record), number)
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise GramianError(f"{where}: id is {name!r}, expected a text or a whole number")
    text = next((record[key] for key in TEXT_KEYS if key in record), None)
    if not isinstance(text, str):
        raise GramianError(
            f"{where}: no text; expected one of the keys {', '.join(TEXT_KEYS)} "
            f"among {', '.join(map(str, record)) or 'none'}"
        )
    title = record.get("title")
    return str(name), f"{title} {text}" if isinstance(title, str) and title else text
