"""Tracks directories that fail while a broker runs: heartbeats list them, and the broker may have to stop (KIP-858).

Source: BrokerLifecycleManager, LogManager.handleLogDirFailure, ReplicaManager.handleLogDirFailure of 4.3.1. Three
departures. A broker without an acknowledgement stops only if it leads a partition in the directory, as KIP-858
describes, and checks again every second. A directory is acknowledged only by the answer to a heartbeat that listed it.
A pending assignment into the directory also counts as not acknowledged.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kcore.broker.directories.outputs import HeartbeatNow, ShutDown
from kcore.types import Uuid

LOG_DIR_FAILURE_TIMEOUT_MS: Final = 30_000  # The default of log.dir.failure.timeout.ms.
RECHECK_MS: Final = 1_000  # Between two checks of a failed directory after the time-out.


class DirectoryFailures:
    """The failed directories. `online`: the directories that could be opened; `configured`: the configured number.

    `metadata_directory`: the directory with the metadata log; the broker stops if it fails. `is_migrating`: the broker
    is still in ZooKeeper mode, where the controller has no directories.
    """

    def __init__(
        self,
        online: Iterable[Uuid],
        configured: int,
        *,
        timeout_ms: int = LOG_DIR_FAILURE_TIMEOUT_MS,
        metadata_directory: Uuid | None = None,
        is_migrating: bool = False,
    ) -> None:
        self.online = set(online)
        self.is_migrating = is_migrating
        self._configured, self._timeout_ms, self._metadata = configured, timeout_ms, metadata_directory
        self._offline: dict[Uuid, int] = {}  # The time of the next check by directory, in the order of failure.
        self._acknowledged: set[Uuid] = set()  # Failed directories that the controller knows.

    @property
    def has_offline(self) -> bool:
        """Whether a directory failed, at the start or later."""
        return len(self.online) < self._configured

    @property
    def offline_log_dirs(self) -> list[Uuid]:
        """The directories that failed since the start; every heartbeat lists them until the broker restarts."""
        return [*self._offline]

    def is_failed(self, directory: Uuid | None) -> bool:
        """Whether the directory failed since the start."""
        return directory in self._offline

    def on_failed(self, directory: Uuid, now_ms: int) -> list[HeartbeatNow | ShutDown]:
        """Takes the directory offline after a failed disk operation; no outputs if it is offline already."""
        if directory not in self.online:
            return []
        self.online.discard(directory)
        self._offline[directory] = now_ms + self._timeout_ms
        if not self.online:
            return [ShutDown("all log directories have failed")]
        if directory == self._metadata:
            return [ShutDown(f"the directory of the metadata log, {directory}, has failed")]
        if self.is_migrating:
            return [ShutDown(f"log directory {directory} has failed while the broker migrates from ZooKeeper")]
        return [HeartbeatNow()]

    def on_heartbeat_accepted(self, offline_log_dirs: Collection[Uuid]) -> None:
        """Called when the controller has accepted a heartbeat that listed these directories."""
        self._acknowledged.update(self._offline.keys() & {*offline_log_dirs})

    @property
    def next_deadline_ms(self) -> int | None:
        """When the server must call `tick`; None if no directory has failed."""
        return min(self._offline.values(), default=None)

    def tick(
        self, now_ms: int, leads_in: Callable[[Uuid], bool], owes: Callable[[Uuid], bool]
    ) -> list[HeartbeatNow | ShutDown]:
        """Stops a broker that leads in a failed directory, if the controller has not acknowledged it in time.

        `leads_in`: whether this broker leads a partition in the directory. `owes`: whether the controller has not yet
        accepted an assignment into the directory. Each directory is checked at its deadline, then every second.
        """
        for directory, deadline_ms in self._offline.items():
            if now_ms < deadline_ms:
                continue
            self._offline[directory] = now_ms + RECHECK_MS
            is_known = directory in self._acknowledged and not owes(directory)
            if not is_known and leads_in(directory):
                why = "leads partitions in failed log directory"
                return [ShutDown(f"this broker {why} {directory}, and no controller acknowledged the failure in time")]
        return []
