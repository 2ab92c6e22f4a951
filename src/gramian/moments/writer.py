"""Write a moments set: part by part, into a folder that appears only when it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.accumulator import Pair
from gramian.moments.codec import encode_joint, encode_moments, encode_reservoir, file_name
from gramian.moments.digests import summary, to_digests, to_tensor, union
from gramian.moments.folds import FOLDS
from gramian.moments.format import STORAGES, Index, gramian_version, total_counts
from gramian.moments.joint import JointMoments
from gramian.moments.moments import Moments
from gramian.moments.momentset import MomentSet
from gramian.moments.part import Part, check_layout
from gramian.moments.recipe import Recipe
from gramian.moments.reservoir import Reservoir
from gramian.moments.shards import HeldShards
from gramian.moments.stores import FolderStore, MemoryStore, Store
from gramian.moments.tensorfile import TensorSpec
from gramian.moments.tiles import is_finite

Key = tuple[str, tuple[str, ...], bool]


class MomentSetWriter:
    """Writes a moments set; use it in a ``with`` block, and call :meth:`finish` at the end.

    Every part is a complete file or not there. Nothing appears under the target's name before
    :meth:`finish`; without it the ``with`` block removes what was written.

    Args:
        path: the folder to write, ``x.moments``; None keeps the set in memory.
        recipe: what the statistics are of.
        storage: ``"float64"``, exact; ``"float32"`` halves full scatters and cross scatters,
            scaled to a unit diagonal first.
        force: whether a moments set at ``path`` may be replaced, once the new one is complete.
        folder: the working folder; by default one beside the target.
        keep: leave the working folder when the work is cut short, and adopt the finished parts
            of one that exists (needs ``folder``): a killed collection goes on where it was.

    Raises:
        GramianError: the target exists, the working folder holds the parts of another recipe,
            or a folder cannot be made.
    """

    def __init__(
        self,
        path: str | Path | None,
        recipe: Recipe,
        *,
        storage: str = "float64",
        force: bool = False,
        folder: str | Path | None = None,
        keep: bool = False,
    ) -> None:
        if storage not in STORAGES:
            raise GramianError(f"storage is {storage!r}, expected one of {', '.join(STORAGES)}")
        if keep and (folder is None or path is None):
            raise GramianError("keep=True needs a target path and a working folder=...")
        self.recipe, self.storage = recipe, storage
        self._parts: dict[Key, Part] = {}
        self._open = True
        self._store: Store = MemoryStore()
        if path is not None:
            work = None if folder is None else Path(folder)
            store = FolderStore(Path(path), work, keep, force)
            self._store = store
            try:
                self._parts = {part.key: part for part in store.adopt(recipe, storage)}
            except BaseException:
                self.abort()
                raise

    def __enter__(self) -> MomentSetWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()

    def has_site(self, site: str, fold: str) -> bool:
        """Whether this fold of the site is written."""
        part = self._parts.get(("site", (site,), False))
        return part is not None and fold in part.counts

    def has_pair(self, pair: Pair, fold: str) -> bool:
        """Whether this fold of the pair is written."""
        part = self._parts.get(("pair", (pair.x, pair.y), pair.increment))
        return part is not None and fold in part.counts

    def put_site(
        self,
        site: str,
        fold: str,
        rows: Moments,
        sinks: tuple[Moments | None, Tensor | None] = (None, None),
    ) -> None:
        """Write one fold of a site; a fold that is there already is replaced.

        Args:
            site: its name.
            fold: ``"train"``, ``"select"`` or ``"report"``.
            rows: moments of the rows that are no sinks.
            sinks: moments of sink rows, and raw sink rows (k, d) that are not in those: the
                same rows in the same order for every site.

        Raises:
            GramianError: moments of another width or order than in the other folds, numbers
                that are not finite, or a disk without space.
        """
        dense, thin = sinks
        tensors = encode_moments(rows, "rows.", self.storage)
        if dense is not None:
            tensors |= encode_moments(dense, "sinks.", self.storage)
        if thin is not None and len(thin):
            if thin.ndim != 2 or thin.shape[1] != rows.d or not is_finite(thin):
                raise GramianError(
                    f"thin sink rows of {site!r} are {tuple(thin.shape)}, expected finite rows "
                    f"(k, {rows.d})"
                )
            tensors["sinks.thin"] = thin
        held = 0 if thin is None else len(thin)
        counts = (rows.count, (0.0 if dense is None else dense.count) + held)
        order = "diagonal" if rows.is_diagonal else "full"
        self._put(("site", (site,), False), (rows.d,), order, fold, counts, tensors)

    def put_pair(
        self, pair: Pair, fold: str, rows: JointMoments, sinks: JointMoments | None = None
    ) -> None:
        """Write one fold of a pair: the cross scatter and the diagonal of its target.

        The source is written by :meth:`put_site`, and so are the thin sink rows.

        Args:
            pair: its two sites, and whether ``rows`` are of the increment.
            fold: ``"train"``, ``"select"`` or ``"report"``.
            rows: joint moments of the rows that are no sinks; of ``x`` only the diagonal is read.
            sinks: joint moments of the sink rows that are not kept thin.

        Raises:
            GramianError: as for :meth:`put_site`.
        """
        tensors = encode_joint(rows, "rows.", self.storage)
        if sinks is not None:
            tensors |= encode_joint(sinks, "sinks.", self.storage)
        counts = (rows.count, 0.0 if sinks is None else sinks.count)
        key = ("pair", (pair.x, pair.y), pair.increment)
        self._put(key, (rows.x.d, rows.y.d), "diagonal", fold, counts, tensors)

    def put_reservoir(self, site: str, fold: str, reservoir: Reservoir) -> None:
        """Write the raw rows kept of one fold of a site.

        Raises:
            GramianError: a key that is no SHA-256, rows that are not finite, or a disk without
                space.
        """
        key = ("reservoir", (site,), False)
        counts = (float(len(reservoir)), 0.0)
        self._put(key, (reservoir.width,), "full", fold, counts, encode_reservoir(reservoir))

    def _put(
        self,
        key: Key,
        dims: tuple[int, ...],
        order: str,
        fold: str,
        counts: tuple[float, float],
        tensors: Mapping[str, Tensor],
    ) -> None:
        kind, names, increment = key
        if not self._open:
            raise GramianError("this writer is closed; nothing can be added")
        if fold not in FOLDS:
            raise GramianError(f"fold is {fold!r}, expected one of {', '.join(FOLDS)}")
        every = {f"{fold}.{name}": tensor for name, tensor in tensors.items()}
        folds = {fold: counts}
        old = self._parts.get(key)
        if old is not None:
            if (old.dims, old.order) != (dims, order):
                raise GramianError(
                    f"{old.title} in the fold {fold!r} is {order} of {dims}, in other folds "
                    f"{old.order} of {old.dims}"
                )
            for name, tensor in self._store.held(old).items():
                if not name.startswith(f"{fold}."):
                    every[name] = tensor
            folds = dict(old.counts) | folds
        part = Part(
            file=file_name(kind, names, increment),
            kind=kind,
            names=names,
            increment=increment,
            dims=dims,
            order=order,
            counts={name: folds[name] for name in FOLDS if name in folds},
            tensors={name: TensorSpec.of(every[name]) for name in sorted(every)},
        )
        check_layout(part, part.title)
        try:
            size, sha256 = self._store.put(part, every)
        except GramianError:
            self.abort()
            raise
        self._parts[key] = replace(part, bytes=size, sha256=sha256)

    def finish(
        self,
        documents: Mapping[str, Iterable[str]] | None = None,
        counts: Mapping[str, Mapping[str, int]] | None = None,
        shards: HeldShards | None = None,
    ) -> MomentSet:
        """Complete the set: write the index, and give the folder its name.

        Args:
            documents: fold -> digests (hexadecimal SHA-256) of the documents that were counted.
            counts: fold -> ``tokens``, ``rows`` and ``sinks``; what is left out is taken from
                the largest site.
            shards: which shards of one collection these are; None for a set that is whole.

        Raises:
            GramianError: a pair without its source, sites of unlike dimensions, or a target
                that has appeared meanwhile.
        """
        digests = {fold: to_digests(names) for fold, names in (documents or {}).items()}
        for fold, names in digests.items():
            key: Key = ("documents", (), False)
            self._put(
                key, (), "full", fold, (float(len(names)), 0.0), {"digests": to_tensor(names)}
            )
        index = Index(
            recipe=self.recipe,
            storage=self.storage,
            counts=total_counts(self._parts.values(), counts or {}),
            documents=summary(union(digests.values())[0]),
            parts=tuple(sorted(self._parts.values(), key=lambda part: part.sort_key)),
            gramian=gramian_version(),
            shards=shards,
        )
        index.check("the set to be written")
        try:
            reader = self._store.finish(index)
        except GramianError:
            self.abort()
            raise
        self._open = False
        return MomentSet(index, reader)

    def abort(self) -> None:
        """Give up: remove what was written (a folder that was to be kept stays). Never fails."""
        if self._open:
            self._open = False
            self._store.discard()
