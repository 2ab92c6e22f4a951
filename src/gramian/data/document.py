"""One document, and how a record of named fields becomes one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from gramian.errors import GramianError

_NO_TEXT = re.compile("[\0\ud800-\udfff]")

Place: TypeAlias = tuple[int, ...]
"""Where a document starts in its reader, so that it can be read again without its neighbours."""


@dataclass(frozen=True)
class Document:
    """A piece of text that is never split between two folds.

    Attributes
    ----------
    text : the document; for a conversation, the contents of its turns joined by blank lines.
    digest : SHA-256 of the text, hexadecimal. Folds and order follow from it alone.
    name : where the document comes from, for messages: ``notes.jsonl:17``.
    label : class of the document, if the source has one.
    span : characters [start, end) of the text that matter, if the source says so.
    messages : the turns of a conversation (``role``, ``content``), else None.
    """

    text: str
    digest: str
    name: str
    label: str | None = None
    span: tuple[int, int] | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None

    @classmethod
    def of(cls, text: str, name: str, **more: Any) -> Document:
        """A document with the digest of its text."""
        return cls(text, hashlib.sha256(text.encode("utf-8")).hexdigest(), name, **more)


class Reader(Protocol):
    """Documents of one file or one sequence, in order, each of which can be read again."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """True when the documents, concatenated, give the source back to the character."""

    def scan(self) -> Iterator[tuple[Place, Document]]: ...

    def read(self, place: Place) -> Document: ...


@dataclass(frozen=True)
class Fields:
    """Which fields of a record hold the text, the label and the span."""

    text: str = "text"
    label: str | None = None
    span: str | None = None

    def columns(self, present: Sequence[str]) -> list[str]:
        """The columns to read out of a table that has the columns ``present``."""
        wanted = [self.text if self.text in present else "messages", self.label, self.span]
        return [name for name in wanted if name is not None and name in present]

    def document(self, record: object, where: str) -> Document:
        """The document of a record (a mapping of field names to values).

        Raises
        ------
        GramianError : naming ``where``, if the record is no mapping, a field is missing or has
            the wrong type, or the span does not lie within the text.
        """
        if not isinstance(record, Mapping):
            raise GramianError(
                f"{where}: expected an object with a field {self.text!r}, "
                f"got {type(record).__name__}"
            )
        messages = None
        if self.text not in record and "messages" in record:
            messages = _messages(record["messages"], where)
            text = "\n\n".join(str(turn["content"]) for turn in messages)
        else:
            text = self._field(record, self.text, where, "text_field")
        if not isinstance(text, str):
            raise GramianError(
                f"{where}: field {self.text!r} is {_json_type(text)}, expected a string"
            )
        bad = _NO_TEXT.search(text)
        if bad is not None:
            kind = "a NUL character" if bad.group() == "\0" else "half of a surrogate pair"
            raise GramianError(
                f"{where}: field {self.text!r} has {kind} at character {bad.start()}; "
                "expected text that has a UTF-8 form"
            )
        label = None
        if self.label is not None:
            label = str(self._field(record, self.label, where, "label"))
        span = None
        if self.span is not None:
            value = self._field(record, self.span, where, "span")
            span = _span(value, len(text), f"{where}: field {self.span!r}")
        return Document.of(text, where, label=label, span=span, messages=messages)

    def _field(self, record: Mapping[str, Any], name: str, where: str, argument: str) -> Any:
        if name not in record:
            raise GramianError(
                f"{where}: no field {name!r} (fields: {', '.join(map(str, record)) or 'none'}); "
                f"name the right one with {argument}="
            )
        return record[name]


def _messages(value: object, where: str) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise GramianError(f"{where}: field 'messages' is {_json_type(value)}, expected a list")
    turns = []
    for turn in value:
        if not isinstance(turn, Mapping) or not {"role", "content"} <= set(turn):
            raise GramianError(
                f"{where}: every entry of 'messages' needs 'role' and 'content', "
                f"got {json.dumps(turn, default=str)[:80]}"
            )
        turns.append({str(key): part for key, part in turn.items() if part is not None})
        turns[-1].setdefault("content", "")
    return tuple(turns)


def _span(value: object, length: int, where: str) -> tuple[int, int]:
    if (
        not isinstance(value, Sequence)
        or len(value) != 2
        or not all(isinstance(end, int) and not isinstance(end, bool) for end in value)
    ):
        raise GramianError(f"{where} is {value!r}, expected [start, end] in characters")
    start, end = value
    if not 0 <= start < end <= length:
        raise GramianError(
            f"{where} is [{start}, {end}], expected 0 <= start < end <= {length}, "
            "the length of the text"
        )
    return start, end


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", bool: "a boolean", int: "a number"}
    names |= {float: "a number", str: "a string", type(None): "null"}
    return names.get(type(value), f"of type {type(value).__name__}")
