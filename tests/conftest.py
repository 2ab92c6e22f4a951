"""What every test obeys: the same examples in every run, and no clock on a busy machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("gramian", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("gramian")
