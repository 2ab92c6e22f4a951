"""Documents from text files, tables, folders, the standard library or the data set hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gramian.data.document import Document, Fields, Place, Reader
from gramian.data.readers import JsonLines, Parquet, Rows, TextFile
from gramian.errors import GramianError

SUFFIXES = (".txt", ".jsonl", ".parquet")
BUNDLED = ("bundled:pydocs",)
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?(:[\w.-]+)?")


@dataclass(frozen=True)
class Documents:
    """Documents in source order. Files are read as they are iterated, every time anew.

    Attributes
    ----------
    name : where the documents come from, as it was given.
    readers : one per file or sequence.
    limit : only the first so many documents, or None.
    """

    name: str
    readers: tuple[Reader, ...]
    limit: int | None = None

    def __iter__(self) -> Iterator[Document]:
        return (document for _, document in self.scan())

    def scan(self) -> Iterator[tuple[Place, Document]]:
        """Pairs of (place, document); a blank document has no place among them.

        Raises
        ------
        GramianError : nothing but blanks came, or a file cannot be read.
        """
        found = False
        for place, document in islice(self._all(), self.limit):
            found = True
            yield place, document
        if not found:
            raise GramianError(f"{self.name}: no text in it; expected at least one document")

    def read(self, place: Place) -> Document:
        """The document at a place that :meth:`scan` gave."""
        return self.readers[place[0]].read(place[1:])

    def joined(self) -> str:
        """The whole text: text files as they are on disk, everything else with blank lines
        between documents."""
        parts: list[str] = []
        previous: Place | None = None
        for place, document in self.scan():
            same_file = previous is not None and previous[0] == place[0]
            if parts and not (same_file and self.readers[place[0]].exact):
                parts.append("\n\n")
            parts.append(document.text)
            previous = place
        return "".join(parts)

    def _all(self) -> Iterator[tuple[Place, Document]]:
        for number, reader in enumerate(self.readers):
            try:
                for place, document in reader.scan():
                    if document.text.strip():
                        yield (number, *place), document
            except OSError as error:
                raise GramianError(f"{reader.name}: cannot be read: {error}") from error


def documents(
    source: str | Path | Iterable[str] | Documents,
    *,
    text_field: str = "text",
    label: str | None = None,
    span: str | None = None,
    split: str = "train",
    limit: int | None = None,
) -> Documents:
    """Documents of a source.

    Parameters
    ----------
    source : one of

        - a ``.txt`` file, cut at blank lines into documents of at least 2000 characters;
        - a ``.jsonl`` or ``.parquet`` file, one document per record, either text or a list
          ``messages`` of turns with ``role`` and ``content``;
        - a folder: all such files in it and below, in sorted order;
        - ``bundled:pydocs``: the reference text in Python's standard library;
        - the name of a data set of the ``datasets`` library, ``name`` or ``owner/name``, with
          ``:configuration`` appended if it has several. This may download;
        - strings, one per document.
    text_field : field of a record that holds the text.
    label, span : fields that hold the class, and ``[start, end]`` in characters.
    split : part of a data set of the ``datasets`` library.
    limit : take only the first so many documents.

    Raises
    ------
    GramianError : the source does not exist, is of no known kind, is empty, or is not text.
    """
    if limit is not None and limit < 1:
        raise GramianError(f"limit is {limit}, expected at least 1 document")
    if isinstance(source, Documents):
        return Documents(source.name, source.readers, source.limit if limit is None else limit)
    fields = Fields(text_field, label, span)
    if not isinstance(source, (str, Path)):
        return Documents("texts", (_texts(source),), limit)
    if str(source).startswith("bundled:"):
        return Documents(str(source), (_bundled(str(source)),), limit)
    path = Path(source)
    if path.exists():
        return Documents(str(source), tuple(_files(path, fields)), limit)
    known = path.suffix.lower() in SUFFIXES
    single_with_suffix = path.suffix != "" and len(path.parts) == 1 and ":" not in str(source)
    if isinstance(source, Path) or known or single_with_suffix or not _HUB_NAME.fullmatch(source):
        raise GramianError(
            f"{source}: no such file or folder; expected {_kinds()}, or the name of a data set"
        )
    return Documents(source, (_hub(source, split, fields),), limit)


def _kinds() -> str:
    return f"a file ({', '.join(SUFFIXES)}), a folder of such files, {', '.join(BUNDLED)}"


def _texts(source: Iterable[str]) -> Rows:
    texts = tuple(source)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise GramianError(
                f"texts[{index}] is of type {type(text).__name__}, expected a string"
            )
    return Rows("texts", texts)


def _bundled(source: str) -> Rows:
    if source not in BUNDLED:
        raise GramianError(f"{source}: not bundled; expected one of {', '.join(BUNDLED)}")
    from pydoc_data.topics import topics

    names = sorted(topics)
    return Rows(source, [topics[name] for name in names], names=[f"pydocs:{n}" for n in names])


def _files(path: Path, fields: Fields) -> Iterator[Reader]:
    if not path.is_dir():
        yield _file(path, fields)
        return
    files = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise GramianError(f"{path}: no file in this folder ends in {', '.join(SUFFIXES)}")
    for file in files:
        yield _file(file, Fields() if file.suffix.lower() == ".txt" else fields)


def _file(path: Path, fields: Fields) -> Reader:
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return JsonLines(path, fields)
    if suffix == ".parquet":
        return Parquet(path, fields)
    if suffix != ".txt":
        raise GramianError(
            f"{path}: unknown kind of file {path.suffix or '(no suffix)'!r}; expected {_kinds()}"
        )
    for argument, name in (("label", fields.label), ("span", fields.span)):
        if name is not None:
            raise GramianError(
                f"{path}: {argument}={name!r} names a field, but a text file has no fields; "
                "give a .jsonl or .parquet file"
            )
    return TextFile(path)


def _hub(source: str, split: str, fields: Fields) -> Rows:
    try:
        import datasets
    except ImportError as error:
        raise GramianError(
            f"{source}: no such file or folder. Should it be the name of a data set, install the "
            'library that reads them: pip install "gramian[data]"'
        ) from error
    name, _, configuration = source.partition(":")
    try:
        table = datasets.load_dataset(name, configuration or None, split=split)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise GramianError(
            f"{source}: no such file or folder, and the data set {name!r} (split {split!r}) could "
            f"not be loaded: {reason}. Check the name and the connection, or give {_kinds()}"
        ) from error
    columns = table.column_names
    if fields.text not in columns and "messages" not in columns:
        raise GramianError(
            f"{source}: no column {fields.text!r} (columns: {', '.join(columns)}); "
            "name the right one with text_field="
        )
    return Rows(source, table.select_columns(fields.columns(columns)), fields)
