"""Unlinks the directories of removed partitions once their delay has passed."""

import os
from typing import Final

# Until another attempt to unlink a directory, for instance when no descriptor was left to list it.
_AGAIN_S: Final = 60.0


class RetiredDirectories:
    """Directories that wait to be unlinked. Times are of time.monotonic."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        self._is_closed = False

    def add(self, path: str, due: float) -> None:
        """Schedules a directory for unlinking."""
        self._due[path] = due

    def next_due(self) -> float | None:
        """Time at which the next directory may be unlinked; None when there is none."""
        return min(self._due.values(), default=None)

    def put_off(self, now: float) -> None:
        """Schedules directories that are due for another attempt."""
        for path, due in list(self._due.items()):
            if due <= now:
                self._due[path] = now + _AGAIN_S

    def unlink(self, now: float) -> None:
        """Unlinks directories that are due; ends early after `close`. Slow: not for the control thread."""
        import shutil  # not at start: it loads what packs archives

        for path, due in list(self._due.items()):
            if self._is_closed:
                return
            if due <= now:
                self._due.pop(path, None)  # two calls may run at once
                shutil.rmtree(path, ignore_errors=True)
                if os.path.exists(path):
                    self._due.setdefault(path, now + _AGAIN_S)

    def close(self) -> None:
        """Leaves the other directories to the next start."""
        self._is_closed = True
