"""How to collect: everything that the result depends on beside the model and the text."""

from __future__ import annotations

from dataclasses import dataclass

from gramian.data.chat import ChatTemplate
from gramian.errors import GramianError
from gramian.moments import RowRule, Shard, Shares
from gramian.moments.format import STORAGES


@dataclass(frozen=True)
class Settings:
    """How to collect. Everything here is part of what the result is."""

    tokens: int | None = None
    length: int = 512
    batch_rows: int = 2048
    seed: int = 0
    shares: Shares = Shares()
    rule: RowRule = RowRule()
    precision: str = "float32"
    storage: str = "float64"
    chat_template: ChatTemplate = "off"
    thinking: bool | None = None
    reservoir: int = 0
    """Raw rows kept per site and fold; 0 keeps none."""
    sink_rows: int = 512
    """Sink rows kept as they are before they become moments; 0 keeps no raw row of any kind."""

    shard: Shard | None = None
    """Which part of the collection this machine takes; ``tokens`` are those of all parts."""

    @property
    def own_tokens(self) -> int | None:
        """About how many tokens this shard has, or the whole collection; None for all."""
        if self.tokens is None or self.shard is None:
            return self.tokens
        return max(1, self.tokens // self.shard.count)

    def __post_init__(self) -> None:
        least = {"length": 2, "batch_rows": 1, "reservoir": 0, "sink_rows": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise GramianError(f"{name} is {getattr(self, name)}, expected at least {low}")
        if self.tokens is not None and self.tokens < 1:
            raise GramianError(
                f"tokens is {self.tokens}, expected at least 1; all is None (--tokens all)"
            )
        if self.storage not in STORAGES:
            raise GramianError(
                f"storage is {self.storage!r}, expected one of {', '.join(STORAGES)}"
            )
