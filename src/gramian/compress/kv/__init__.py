"""Cache less of every token: keys and values in fewer directions, each where it costs least."""

from __future__ import annotations

from gramian.compress.kv.needs import needs
from gramian.compress.kv.planning import plan

__all__ = ["needs", "plan"]
