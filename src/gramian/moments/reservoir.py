"""A sample of raw rows that does not depend on the order in which they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gramian.errors import GramianError
from gramian.moments.digests import row_rank

Key = tuple[str, int]
"""Digest of the document (SHA-256, hexadecimal) and character offset in it."""


class Reservoir:
    """The ``k`` rows of one site whose keys hash lowest.

    The same rows are kept whatever the order of the batches, the number of machines or a restart
    in between, and two models keep the rows of the same places of a text. A key that comes again
    is ignored.

    k : rows to keep. width : numbers in a row. dtype : of the rows kept.
    """

    def __init__(self, k: int, width: int, *, dtype: torch.dtype = torch.float32) -> None:
        if k < 1:
            raise GramianError(f"a reservoir of {k} rows, expected at least 1")
        self.k = k
        self.keys: list[Key] = []
        """Keys of the rows, by rising rank."""
        self.rows = torch.empty(0, width, dtype=dtype)
        """(n, width), in the order of the keys."""
        self._ranks: list[bytes] = []

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return self.rows.shape[1]

    def update(self, keys: Sequence[Key], rows: Tensor) -> None:
        """Offer rows (n, width), one key each.

        Raises
        ------
        GramianError : the rows have another width or there is not one key for each.
        """
        if tuple(rows.shape) != (len(keys), self.width):
            raise GramianError(
                f"reservoir: {len(keys)} keys and rows of shape {tuple(rows.shape)}, expected "
                f"({len(keys)}, {self.width})"
            )
        last = self._ranks[-1] if len(self) == self.k else None
        seen = set(self._ranks)
        fresh: list[tuple[bytes, int]] = []
        for i, key in enumerate(keys):
            rank = row_rank(*key)
            if rank not in seen and (last is None or rank < last):
                seen.add(rank)
                fresh.append((rank, i))
        if not fresh:
            return
        chosen = [i for _, i in fresh]
        offered = rows.detach()[torch.tensor(chosen, device=rows.device)]
        every = torch.cat([self.rows, offered.to("cpu", self.rows.dtype)])
        ranks = self._ranks + [rank for rank, _ in fresh]
        named = self.keys + [(keys[i][0], int(keys[i][1])) for i in chosen]
        order = sorted(range(len(ranks)), key=ranks.__getitem__)[: self.k]
        self.rows = every[order]
        self.keys, self._ranks = [named[i] for i in order], [ranks[i] for i in order]

    def __add__(self, other: Reservoir) -> Reservoir:
        if not isinstance(other, Reservoir):
            return NotImplemented
        if (self.k, self.width) != (other.k, other.width):
            raise GramianError(
                f"reservoirs of {self.k} x {self.width} and {other.k} x {other.width} do not add"
            )
        result = Reservoir(self.k, self.width, dtype=self.rows.dtype)
        for part in (self, other):
            result.update(part.keys, part.rows)
        return result

    def state(self) -> dict[str, Tensor]:
        """Everything as tensors, for :meth:`restore`."""
        digests = "\n".join(digest for digest, _ in self.keys).encode()
        return {
            "rows": self.rows,
            "digests": torch.tensor(list(digests), dtype=torch.uint8),
            "offsets": torch.tensor([offset for _, offset in self.keys], dtype=torch.long),
            "k": torch.tensor(self.k),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Tensor]) -> Reservoir:
        """The reservoir that :meth:`state` was taken of.

        Raises
        ------
        GramianError : a tensor of the state is missing.
        """
        missing = [name for name in ("rows", "digests", "offsets", "k") if name not in state]
        if missing:
            raise GramianError(f"not the state of a reservoir: {', '.join(missing)} not in it")
        rows = state["rows"]
        result = cls(int(state["k"]), rows.shape[1], dtype=rows.dtype)
        if len(rows):
            digests = bytes(state["digests"].tolist()).decode().split("\n")
            result.update(list(zip(digests, state["offsets"].tolist(), strict=True)), rows)
        return result
