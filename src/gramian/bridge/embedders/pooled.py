"""The mean of a transformer's last hidden states over the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gramian.bridge.embedders.protocol import Floats, Progress, checked
from gramian.networks.checkpoint import Checkpoint

TOKENS = 8192
"""Tokens in one batch at most, padding included."""


class PooledModel:
    """Mean-pooled vectors of any network that Gramian opens.

    Padding does not count, and of a causal model neither does the first position, whose state is
    a sink that says nothing of the text. Texts of like length share a batch.

    limit : tokens that are read of a text; None reads as many as the model has positions for.
    normalise : scale vectors to length 1.
    """

    revision: str | None = None

    def __init__(
        self, checkpoint: Checkpoint, *, normalise: bool = False, limit: int | None = None
    ) -> None:
        self._checkpoint = checkpoint
        self.name, self.unit_norm, self.truncated = checkpoint.name, normalise, 0
        self.dim = checkpoint.blueprint.width
        self._limit = min(n for n in (limit, checkpoint.positions, 2048) if n is not None)
        self._skipped = 1 if checkpoint.blueprint.causal else 0

    @property
    def fingerprint(self) -> str | None:
        """Digest of the weights."""
        return self._checkpoint.digest

    def __call__(
        self, texts: Sequence[str], *, prefix: str = "", progress: Progress | None = None
    ) -> Floats:
        """Vectors (n, dim) of texts."""
        ids = self._tokens(checked(texts, prefix))
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        done = 0
        while done < len(order):
            longest = len(ids[order[done]])
            size = max(1, TOKENS // max(1, longest))
            some = order[done : done + size]
            while len(some) > 1 and len(some) * len(ids[some[-1]]) > TOKENS:
                some = some[: max(1, len(some) // 2)]
            out[some] = self._pooled([ids[row] for row in some])
            done += len(some)
            if progress is not None:
                progress(done)
        return out

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        tokenizer = self._checkpoint.tokenizer
        found: list[list[int]] = tokenizer(texts)["input_ids"]
        if self._skipped and tokenizer.bos_token_id is not None:
            start = tokenizer.bos_token_id
            found = [ids if ids[:1] == [start] else [start, *ids] for ids in found]
        long = [row for row, ids in enumerate(found) if len(ids) > self._limit]
        self.truncated += len(long)
        if long:
            again = tokenizer(
                [texts[row] for row in long], truncation=True, max_length=self._limit
            )["input_ids"]
            for row, ids in zip(long, again, strict=True):
                found[row] = ids
        return found

    def _pooled(self, ids: list[list[int]]) -> Floats:
        width = max(map(len, ids))
        device = self._checkpoint.device
        padded = torch.zeros(len(ids), width, dtype=torch.long)
        mask = torch.zeros(len(ids), width, dtype=torch.long)
        for row, some in enumerate(ids):
            padded[row, : len(some)] = torch.tensor(some)
            mask[row, : len(some)] = 1
        model: Any = self._checkpoint.model
        trunk = getattr(model, "base_model", model)
        with torch.inference_mode():
            states = trunk(input_ids=padded.to(device), attention_mask=mask.to(device))[0].float()
        counted = mask.to(device).float()
        lengths = counted.sum(1)
        counted[:, : self._skipped] *= (lengths <= self._skipped).float()[:, None]
        pooled = (states * counted[..., None]).sum(1) / counted.sum(1, keepdim=True)
        if self.unit_norm:
            pooled = torch.nn.functional.normalize(pooled, dim=1)
        found: Floats = pooled.cpu().numpy()
        return found
