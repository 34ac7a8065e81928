"""Notices that a node's log directory was moved, removed or made unreadable while the node runs.

The node continues with its open files. But its next start would not find them.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Final

CHECK_INTERVAL_S: Final = 1.0  # Seconds between two checks.

logger = logging.getLogger(__name__)


class DirectoryWatch:
    """Watches the folder that is at `path` when this object is created."""

    def __init__(self, path: Path) -> None:
        self._path, self._known = path, _identity(path)
        self.problem: str | None = None  # The current problem of the folder.
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts the checks as a task."""
        self._task = asyncio.get_running_loop().create_task(self.run())

    def close(self) -> None:
        """Ends the checks."""
        if self._task is not None:
            self._task.cancel()

    async def run(self) -> None:
        """Checks the folder once a second, and logs each change; runs until it is cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Sets `problem`; logs a line when the folder is gone or back."""
        before, self.problem = self.problem, self._problem()
        if self.problem is not None and before is None:
            logger.error("%s. The node goes on with its open files; put the folder back before it stops", self.problem)
        elif before is not None and self.problem is None:
            logger.info("%s is back in its place", self._path)

    def _problem(self) -> str | None:
        try:
            found = _identity(self._path)
            os.listdir(self._path)
        except FileNotFoundError:
            return f"{self._path}: the log directory is gone: it was moved or removed"
        except OSError as error:
            return f"{self._path}: the log directory cannot be read: {error.strerror}"
        return None if found == self._known else f"{self._path}: another folder is in the place of the log directory"


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
