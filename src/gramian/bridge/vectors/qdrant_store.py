"""Vectors in Qdrant collections: a folder of this process, or a server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.protocol import Floats, Limits, Stamp, VectorBatch, gathered
from gramian.errors import GramianError

T = TypeVar("T")
ID = "gramian_id"
"""Payload field of ids that are neither integers nor UUIDs, which is all that Qdrant takes."""
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
        return QdrantClient(url=place, timeout=30)
    try:
        return QdrantClient(path=place)
    except RuntimeError as error:
        raise GramianError(f"qdrant:{place}: {error}") from error


def asked(address: str, call: Callable[[], T]) -> T:
    """The answer of a store.

    Raises
    ------
    GramianError : the store is away, or refuses.
    """
    from qdrant_client.http.exceptions import ApiException

    try:
        return call()
    except (ApiException, OSError, ValueError) as error:
        if isinstance(error, GramianError):
            raise
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GramianError(
            f"{address}: the store does not answer or refuses ({said}); what was written before "
            "is kept, and the same command goes on"
        ) from error


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
        if not asked(self.address, lambda: self._client.collection_exists(self._name)):
            raise GramianError(f"{self.address}: there is no collection {self._name!r}")
        about = asked(self.address, lambda: self._client.get_collection(self._name))
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
        self._vector, self._text, self._id = wanted, text_field or "text", id_field
        self.dim = int(params.size)
        self.metric = str(params.distance.value)
        kind = getattr(params.datatype, "value", params.datatype)
        self.dtype = str(kind or "float32")
        self.count: int | None = asked(
            self.address, lambda: int(self._client.count(self._name, exact=True).count)
        )
        if not self.count:
            raise GramianError(f"{self.address} holds no points")

    @property
    def stamp(self) -> Stamp:
        """What a point's payload says."""
        points, _ = asked(self.address, lambda: self._client.scroll(self._name, limit=1))
        said = (points[0].payload or {}).get("gramian") if points else None
        return {str(k): str(v) for k, v in said.items()} if isinstance(said, dict) else {}

    def batches(self, size: int = 4096, start: int = 0) -> Iterator[VectorBatch]:
        """All points from one on."""
        offset: Any = None
        first = 0
        while True:
            left = max(0, start - first)
            points, offset = asked(self.address, lambda at=offset: self._page(size, at))  # type: ignore[misc]
            if len(points) > left:
                yield self._batch(points[left:], first + left)
            first += len(points)
            if offset is None:
                return

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
        vectors: Any = True if self._vector is None else [self._vector]
        keys = [point_id(id) for id in ids]
        points = asked(
            self.address,
            lambda: self._client.retrieve(
                self._name, keys, with_payload=True, with_vectors=vectors
            ),
        )
        batch = self._batch(points, 0) if points else VectorBatch([], np.empty((0, self.dim), "f4"))
        texts: Sequence[str | None] = batch.texts or [None] * len(batch)
        found = {
            id: (vector, text)
            for id, vector, text in zip(batch.ids, batch.vectors, texts, strict=True)
        }
        return gathered(self, ids, found)

    def search(self, queries: Any, k: int) -> tuple[list[list[str]], Floats]:
        """The ``k`` nearest in the collection's own metric."""
        ids, scores = [], []
        for query in np.asarray(queries, dtype=np.float32):
            answer = asked(
                self.address,
                lambda row=query: self._client.query_points(  # type: ignore[misc]
                    self._name, query=row.tolist(), using=self._vector, limit=k, with_payload=True
                ),
            )
            ids.append([self._named(point) for point in answer.points])
            scores.append([point.score for point in answer.points])
        return ids, np.asarray(scores, dtype=np.float32)


class QdrantSink:
    """A new collection; a batch that comes again replaces its own points.

    Raises
    ------
    GramianError : the collection exists and holds another result, or the store is away.
    """

    limits = Limits("a Qdrant collection", 65536, ("float32", "float16"))

    def __init__(
        self, address: Address, dim: int, dtype: str, purpose: Stamp, *, force: bool
    ) -> None:
        from qdrant_client import models

        self.address = address.text
        place, self._name = address.table
        self._vector, self.dim = address.part, dim
        self._client = connect(place)
        self._purpose = {**purpose, "state": "partial"}
        self.done = 0
        if asked(self.address, lambda: self._client.collection_exists(self._name)):
            points, _ = asked(self.address, lambda: self._client.scroll(self._name, limit=1))
            said = (points[0].payload or {}).get("gramian") if points else self._purpose
            if said == self._purpose:
                self.done = asked(
                    self.address, lambda: int(self._client.count(self._name, exact=True).count)
                )
                return
            if not force:
                raise GramianError(
                    f"{self.address}: the collection exists; choose another name, or force=True "
                    "(--force) to replace it"
                )
            asked(self.address, lambda: self._client.delete_collection(self._name))
        params = models.VectorParams(
            size=dim, distance=models.Distance.COSINE, datatype=models.Datatype(dtype)
        )
        config: Any = params if self._vector is None else {self._vector: params}
        asked(self.address, lambda: self._client.create_collection(self._name, config))

    def write(self, batch: VectorBatch) -> None:
        """Add points."""
        from qdrant_client import models

        if batch.start != self.done:
            raise GramianError(
                f"{self.address}: rows from {batch.start} on, expected from {self.done} on"
            )
        points = []
        for row, id in enumerate(batch.ids):
            payload: dict[str, Any] = {ID: id, "gramian": self._purpose}
            if batch.texts is not None:
                payload["text"] = batch.texts[row]
            vector: Any = batch.vectors[row].tolist()
            held = vector if self._vector is None else {self._vector: vector}
            points.append(models.PointStruct(id=point_id(id), vector=held, payload=payload))
        asked(self.address, lambda: self._client.upsert(self._name, points, wait=True))
        self.done += len(batch)

    def finish(self, stamp: Stamp) -> None:
        """Stamp every point."""
        from qdrant_client import models

        asked(
            self.address,
            lambda: self._client.set_payload(
                self._name, {"gramian": dict(stamp)}, points=models.Filter(), wait=True
            ),
        )
        self._client.close()


def point_id(id: str) -> int | str:
    """An id as Qdrant takes it: an unsigned integer, a UUID, or a UUID made of the id."""
    if id.isascii() and id.isdigit() and str(int(id)) == id and int(id) < 2**64:
        return int(id)
    try:
        return str(uuid.UUID(id))
    except ValueError:
        return str(uuid.uuid5(NAMESPACE, id))
