"""Bridges in folders: what they lead from and to, and whether rows are what they were made for."""

from gramian.bridge.saved.bridge import DIRECTIONS, SavedBridge
from gramian.bridge.saved.folder import open_bridge
from gramian.bridge.saved.side import SideCheck, check_side
from gramian.bridge.saved.space import Space

__all__ = ["DIRECTIONS", "SavedBridge", "SideCheck", "Space", "check_side", "open_bridge"]
