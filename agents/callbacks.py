"""Public path of the callbacks."""

from oda_rl.agents.sb3.callbacks import CodebookCallback
from oda_rl.agents.sb3.keeping import KeepBestCallback, SnapshotCallback

__all__ = ["CodebookCallback", "KeepBestCallback", "SnapshotCallback"]
