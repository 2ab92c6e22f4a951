"""Vectors in Qdrant collections: a folder of this process, or a server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.asking import asked
from gramian.bridge.vectors.protocol import Floats, Stamp, VectorBatch, gathered
from gramian.errors import GramianError

T = TypeVar("T")
ID = "gramian_id"
"""Payload field of ids that are neither integers nor UUIDs, which is all that Qdrant takes."""
MARK = "gramian"
"""Payload field of one point, which says what the collection is."""
STATE = "state"
"""Key of what a run of Gramian has made of the collection so far; no part of its stamp."""
PAGE = 1000
METRICS = {"Cosine": "cosine", "Dot": "dot", "Euclid": "l2", "Manhattan": "l1"}
NAMESPACE = uuid.UUID("7a3f9d0e-6d0c-5d53-8f0a-0f2f6e2b7c11")


def connect(place: str) -> Any:
    """A client of a server (a URL) or of a folder.

    Raises
    ------
    GramianError : the package is missing, or the folder is in use.
    """
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise GramianError("Qdrant needs its client: pip install 'gramian[qdrant]'") from error
    if "://" in place:
        return QdrantClient(url=place, timeout=30, check_compatibility=False)
    try:
        return QdrantClient(path=place)
    except RuntimeError as error:
        raise GramianError(f"qdrant:{place}: {error}") from error


def ask(address: str, call: Callable[[], T]) -> T:
    """The answer of a store.

    Raises
    ------
    GramianError : the store is away, or refuses.
    """
    from qdrant_client.http.exceptions import ApiException

    return asked(address, call, (ApiException, OSError, ValueError, RuntimeError))


def marker(client: Any, collection: str) -> tuple[Any, dict[str, str]]:
    """The point in whose payload Gramian says what a collection is, and what it says.

    Returns None and nothing where there is no such point.
    """
    from qdrant_client import models

    unmarked = models.IsEmptyCondition(is_empty=models.PayloadField(key=MARK))
    found, _ = client.scroll(collection, models.Filter(must_not=[unmarked]), limit=1)
    said = found[0].payload.get(MARK) if found else None
    if not isinstance(said, dict):
        return None, {}
    return found[0].id, {str(key): str(value) for key, value in said.items()}


class QdrantSource:
    """A vector of a collection, by rising point id.

    Raises
    ------
    GramianError : no such collection or vector, or a store that is away.
    """

    def __init__(
        self, address: Address, *, id_field: str, vector_field: str | None, text_field: str | None
    ) -> None:
        self.address = address.text
        place, self._name = address.table
        self._client = connect(place)
        if not ask(self.address, lambda: self._client.collection_exists(self._name)):
            raise GramianError(f"{self.address}: there is no collection {self._name!r}")
        about = ask(self.address, lambda: self._client.get_collection(self._name))
        vectors = about.config.params.vectors
        wanted = address.part or vector_field
        if isinstance(vectors, dict):
            names = sorted(vectors)
            wanted = wanted or (names[0] if len(names) == 1 else None)
            if wanted not in vectors:
                raise GramianError(
                    f"{self.address}: named vectors are {', '.join(names)}; name one behind #"
                )
            params: Any = vectors[wanted]
        elif wanted:
            raise GramianError(f"{self.address}: the collection has one vector without a name")
        else:
            params = vectors
        if params.multivector_config is not None:
            raise GramianError(f"{self.address}: the collection keeps many vectors for one point")
        self._vector, self._text, self._id = wanted, text_field or "text", id_field
        self.dim = int(params.size)
        self.distance = str(params.distance.value)
        self.metric = METRICS[self.distance]
        kind = getattr(params.datatype, "value", params.datatype)
        self.dtype = str(kind or "float32")
        self.count: int | None = ask(
            self.address, lambda: int(self._client.count(self._name, exact=True).count)
        )
        if not self.count:
            raise GramianError(f"{self.address} holds no points")

    @property
    def stamp(self) -> Stamp:
        """What a point's payload says."""
        return {key: value for key, value in self._said.items() if key != STATE}

    @cached_property
    def _said(self) -> dict[str, str]:
        return ask(self.address, lambda: marker(self._client, self._name))[1]

    def is_collection(self, name: str, said: Stamp) -> bool:
        """Whether a collection of this name, which says this of itself, can only be this one."""
        return self._name == name and self._said == said

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All points from one on."""
        first, offset = 0, None
        while first < start:
            left = min(PAGE, start - first)
            points, offset = ask(self.address, lambda n=left, at=offset: self._skip(n, at))  # type: ignore[misc]
            first += len(points)
            if offset is None:
                return
        while True:
            points, offset = ask(self.address, lambda at=offset: self._page(size, at))  # type: ignore[misc]
            if points:
                yield self._batch(points, first)
            first += len(points)
            if offset is None:
                return

    def _skip(self, size: int, offset: Any) -> Any:
        return self._client.scroll(
            self._name, limit=size, offset=offset, with_payload=False, with_vectors=False
        )

    def _page(self, size: int, offset: Any) -> Any:
        vectors: Any = True if self._vector is None else [self._vector]
        return self._client.scroll(
            self._name, limit=size, offset=offset, with_payload=True, with_vectors=vectors
        )

    def _batch(self, points: Sequence[Any], first: int) -> VectorBatch:
        ids = [self._named(point) for point in points]
        rows = [self._of(point) for point in points]
        texts = [(point.payload or {}).get(self._text) for point in points]
        named = [text for text in texts if isinstance(text, str)]
        return VectorBatch(
            ids,
            np.asarray(rows, dtype=np.float32),
            named if len(named) == len(ids) else None,
            first,
        )

    def _named(self, point: Any) -> str:
        payload = point.payload or {}
        return str(payload.get(ID, payload.get(self._id, point.id)))

    def _of(self, point: Any) -> list[float]:
        found = point.vector if self._vector is None else (point.vector or {}).get(self._vector)
        if found is None:
            raise GramianError(f"{self.address}: point {point.id} has no vector")
        return list(found)

    def take(self, ids: Sequence[str]) -> VectorBatch:
        """The points of these ids."""
        from qdrant_client import models

        vectors: Any = True if self._vector is None else [self._vector]
        found: dict[str, tuple[Floats, str | None]] = {}

        def add(points: Sequence[Any]) -> None:
            batch = self._batch(points, 0)
            texts: Sequence[str | None] = batch.texts or [None] * len(batch)
            rows = zip(batch.ids, batch.vectors, texts, strict=True)
            found.update({id: (vector, text) for id, vector, text in rows})

        def retrieve(keys: list[Any]) -> list[Any]:
            points: list[Any] = self._client.retrieve(
                self._name, keys, with_payload=True, with_vectors=vectors
            )
            return points

        def named(some: list[Any]) -> list[Any]:
            match = models.FieldCondition(key=self._id, match=models.MatchAny(any=some))
            points: list[Any] = self._client.scroll(
                self._name, models.Filter(must=[match]), limit=len(some), with_vectors=vectors
            )[0]
            return points

        for first in range(0, len(ids), PAGE):
            some = list(ids[first : first + PAGE])
            if points := ask(self.address, lambda s=some: retrieve([point_id(id) for id in s])):  # type: ignore[misc]
                add(points)
            # ids of other writers may stand in a field of the payload
            left = [id for id in some if id not in found]
            for keys in (left, [int(id) for id in left if isinstance(point_id(id), int)]):
                if keys and (points := ask(self.address, lambda k=keys: named(k))):  # type: ignore[misc]
                    add(points)
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest in the collection's own metric; a distance is given negative."""
        ids, scores = [], []
        for query in np.asarray(queries, dtype=np.float32):
            answer = ask(
                self.address,
                lambda row=query: self._client.query_points(  # type: ignore[misc]
                    self._name, query=row.tolist(), using=self._vector, limit=k, with_payload=True
                ),
            )
            ids.append([self._named(point) for point in answer.points])
            sign = -1.0 if self.metric in ("l1", "l2") else 1.0
            scores.append([sign * point.score for point in answer.points])
        return ids, np.asarray(scores, dtype=np.float32)


def point_id(id: str) -> int | str:
    """An id as Qdrant takes it: an unsigned integer, a UUID, or a UUID made of the id."""
    if id.isascii() and id.isdigit() and str(int(id)) == id and int(id) < 2**64:
        return int(id)
    try:
        return str(uuid.UUID(id))
    except ValueError:
        return str(uuid.uuid5(NAMESPACE, id))
