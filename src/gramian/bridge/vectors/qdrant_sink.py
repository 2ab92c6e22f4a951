"""New Qdrant collections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gramian.bridge.vectors.address import Address
from gramian.bridge.vectors.protocol import (
    Limits,
    Stamp,
    VectorBatch,
    VectorSource,
    check_next,
)
from gramian.bridge.vectors.qdrant_store import (
    ID,
    MARK,
    STATE,
    QdrantSource,
    ask,
    connect,
    marker,
    point_id,
)
from gramian.errors import GramianError

PLACE = "gramian_row"
"""Payload field of a point's row in the source."""
REQUEST = 8 << 20
"""Bytes of a request, about; a server takes 32 MB unless it is told otherwise."""


class QdrantSink:
    """A new collection; points that come again replace themselves.

    Every point says which row it is, since a server that goes away may have kept some points of a
    batch and not others: rows count as done up to the first that is missing. Only a collection that
    Gramian wrote is ever replaced.

    Raises
    ------
    GramianError : the collection exists and holds another result or was written by something else,
        or the store is away.
    """

    limits = Limits(
        "a Qdrant collection",
        65_536,
        ("float32", "float16"),
        ("a collection by cosine keeps unit vectors: their lengths are lost",),
    )

    def __init__(
        self,
        address: Address,
        dim: int,
        dtype: str,
        purpose: Stamp,
        *,
        force: bool,
        like: VectorSource | None = None,
    ) -> None:
        self.address = address.text
        place, self._name = address.table
        self._vector, self.dim, self._dtype = address.part, dim, dtype
        self._client = connect(place)
        self._purpose = {**purpose, "dim": str(dim), "dtype": dtype, STATE: "partial"}
        self._distance = like.distance if isinstance(like, QdrantSource) else "Cosine"
        self._marked: Any = None
        self.done = 0
        self._exists = ask(self.address, lambda: self._client.collection_exists(self._name))
        if not self._exists:
            return
        self._marked, kept = ask(self.address, lambda: marker(self._client, self._name))
        if kept == self._purpose:
            self.done = ask(self.address, self._prefix)
        elif self._marked is None:
            self._check_empty()
        elif isinstance(like, QdrantSource) and like.is_collection(self._name, kept):
            raise GramianError(
                f"{self.address} is the source of the vectors, which is never written to; choose "
                "another collection"
            )
        elif force:
            ask(self.address, lambda: self._client.delete_collection(self._name))
            self._exists, self._marked = False, None
        else:
            raise GramianError(
                f"{self.address}: the collection exists, perhaps with part of another result; "
                "choose another name, or force=True (--force) to replace it"
            )

    def _check_empty(self) -> None:
        """Go on with what a run left that was killed before its first point, and no more."""
        about = ask(self.address, lambda: self._client.get_collection(self._name))
        if ask(self.address, lambda: self._count(None)) or about.config.params.vectors != (
            self._params()
        ):
            raise GramianError(
                f"{self.address}: the collection exists and was not written by Gramian; choose "
                "another name"
            )

    def _params(self) -> Any:
        from qdrant_client import models

        params = models.VectorParams(
            size=self.dim,
            distance=models.Distance(self._distance),
            datatype=models.Datatype(self._dtype),
        )
        return params if self._vector is None else {self._vector: params}

    def _count(self, below: int | None) -> int:
        """Points, or those of rows below one."""
        from qdrant_client import models

        some = None
        if below is not None:
            row = models.FieldCondition(key=PLACE, range=models.Range(lt=below))
            some = models.Filter(must=[row])
        return int(self._client.count(self._name, count_filter=some, exact=True).count)

    def _prefix(self) -> int:
        """Rows before the first that is missing: halving, since all below it are there."""
        low, high = 0, self._count(None)
        if self._count(high) == high:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._count(middle) == middle else (low, middle - 1)
        return low

    def write(self, batch: VectorBatch) -> None:
        """Add points."""
        check_next(self.address, batch, self.done, self.dim)
        if not self._exists:
            params = self._params()
            ask(self.address, lambda: self._client.create_collection(self._name, params))
            self._exists = True
        for points in self._requests(batch):
            ask(
                self.address,
                lambda some=points: self._client.upsert(self._name, some, wait=True),  # type: ignore[misc]
            )
        self.done += len(batch)

    def _requests(self, batch: VectorBatch) -> Iterator[list[Any]]:
        from qdrant_client import models

        points: list[Any] = []
        size = 0
        for row, id in enumerate(batch.ids):
            key = point_id(id)
            payload: dict[str, Any] = {PLACE: batch.start + row}
            if str(key) != id:
                payload[ID] = id
            if batch.start + row == 0:
                payload[MARK] = self._purpose
                self._marked = key
            if batch.texts is not None:
                payload["text"] = batch.texts[row]
                size += len(batch.texts[row])
            vector: Any = batch.vectors[row].tolist()
            held = vector if self._vector is None else {self._vector: vector}
            points.append(models.PointStruct(id=key, vector=held, payload=payload))
            size += 12 * self.dim + 200
            if size > REQUEST:
                yield points
                points, size = [], 0
        if points:
            yield points

    def finish(self, stamp: Stamp) -> None:
        """Mark the collection as complete, with its stamp."""
        if not self.done:
            raise GramianError(f"{self.address}: there are no rows to write")
        there = ask(self.address, lambda: self._count(None))
        if there != self.done:
            raise GramianError(
                f"{self.address}: {self.done} rows were written and {there} points are there: ids "
                "come twice, or something else writes to the collection"
            )
        said = {MARK: {**stamp, STATE: "complete"}}
        ask(
            self.address,
            lambda: self._client.set_payload(self._name, said, points=[self._marked], wait=True),
        )
        self._client.close()
