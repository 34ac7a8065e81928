"""Directories that fail while a broker runs: what its heartbeats say of them, and when it must stop (KIP-858).

Source: BrokerLifecycleManager, LogManager.handleLogDirFailure, ReplicaManager.handleLogDirFailure of 4.3.1. Otherwise
than there: a broker stops for want of an answer only if it leads a partition in that directory, as the document has it,
and looks again every second until the controller knows; a directory counts as told only if the heartbeat that was
answered named it; an assignment into it that the controller lacks counts, too.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from kcore.broker.directories.outputs import HeartbeatNow, ShutDown
from kcore.types import Uuid

LOG_DIR_FAILURE_TIMEOUT_MS: Final = 30_000  # The default of log.dir.failure.timeout.ms.
LOOK_AGAIN_MS: Final = 1_000


class DirectoryFailures:
    """`online`: the directories that came up, of `configured` in all.

    `metadata_directory`: the one with the metadata log, without which a broker cannot go on. `is_migrating`: the broker
    is still in ZooKeeper mode, where its controller does not learn of directories.
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
        self._offline: dict[Uuid, int] = {}  # In the order in which they failed, with the time to look at it.
        self._told: set[Uuid] = set()

    @property
    def has_offline(self) -> bool:
        """Whether a directory is offline, since the start or later."""
        return len(self.online) < self._configured

    @property
    def offline_log_dirs(self) -> list[Uuid]:
        """For every heartbeat until the broker restarts: all that have failed since its start."""
        return [*self._offline]

    def is_failed(self, directory: Uuid | None) -> bool:
        """Whether it failed since the start."""
        return directory in self._offline

    def on_failed(self, directory: Uuid, now_ms: int) -> list[HeartbeatNow | ShutDown]:
        """A disk operation failed there; nothing where that is known."""
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
        """The controller has answered without an error a heartbeat that named these."""
        self._told.update(self._offline.keys() & {*offline_log_dirs})

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted."""
        return min(self._offline.values(), default=None)

    def tick(
        self, now_ms: int, leads_in: Callable[[Uuid], bool], owes: Callable[[Uuid], bool]
    ) -> list[HeartbeatNow | ShutDown]:
        """Stops a broker that leads in a failed directory of which the controller does not know in time.

        `leads_in`: whether this broker leads a partition whose replica is there. `owes`: whether an assignment into
        that directory is still to be accepted. Each directory is looked at when its time comes, then every second.
        """
        for directory, deadline_ms in self._offline.items():
            if now_ms < deadline_ms:
                continue
            self._offline[directory] = now_ms + LOOK_AGAIN_MS
            is_known = directory in self._told and not owes(directory)
            if not is_known and leads_in(directory):
                why = "leads partitions in failed log directory"
                return [ShutDown(f"this broker {why} {directory}, and could not tell a controller so in time")]
        return []
