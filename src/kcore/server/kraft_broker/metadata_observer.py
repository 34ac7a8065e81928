"""A broker's node in the metadata quorum: an observer with its own copy of the log and without a listener."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any, ClassVar, NamedTuple, Never

from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader, ObserverMachine, ReadSnapshotSlice
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.metadata.newer_records import check_batches
from kcore.metadata.table.broker_table import Endpoint
from kcore.net.security.listener_security import PROTOCOLS, ListenerSecurity
from kcore.node.kraft.snapshot_slices import SnapshotNeed, snapshot_slices
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import SnapshotReader
from kcore.releases.known import DEFAULT_RELEASE, RELEASES
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.server.properties.values import QuorumSettings
from kcore.server.quorum_node.quorum_runtime import PLAINTEXT, QuorumRuntime, RuntimeHooks
from kcore.server.quorum_node.snapshot_writing import SNAPSHOT_CHECK_S, write_due_snapshot
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.storage.raft.raft_dir import DirectoryElections, RaftDirectory


class LogEnd(ObserverMachine):
    """The state machine of a node that needs only the leader and the committed end of the log, and reads no records."""

    reads_batches: ClassVar = False

    def __init__(self) -> None:
        self.end_offset = 0

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Never]:
        self.end_offset = end_offset
        return ()

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Never]:
        self.end_offset = reader.snapshot.offset
        reader.close()
        return ()


class OwnLog(NamedTuple):
    """A broker's open copy of the metadata log, with its node's configuration and election state."""

    config: RaftConfig
    log: DiskRaftLog
    elections: DirectoryElections


def open_log(
    folder: Path, broker_id: int, cluster_id: str, quorum: QuorumSettings, release: str, *, set_aside: bool = False
) -> OwnLog:
    """Opens the metadata log; StorageError for a folder that is not formatted for this broker."""
    voters = [each.key.id for each in quorum.voters]
    directory = RaftDirectory(folder, node_id=broker_id, cluster_id=cluster_id, voters=voters, is_broker=True)
    known = RELEASES[release]
    log, election = directory.open(quorum.metadata_log._replace(set_aside=set_aside), level=known.log_level)
    config = RaftConfig(
        directory.cluster_id,
        broker_id,
        directory.directory_id,
        {},
        SystemRandom().randrange,
        voters=quorum.voters,
        bootstrap_servers=quorum.bootstrap,
        listener=quorum.controller_listener,
        can_become_voter=False,
        check_data=partial(check_batches, release=known),
        level=known.raft_level,
        **quorum.raft,
    )
    return OwnLog(config, log, DirectoryElections(directory, election))


def controller_endpoint(runtime: QuorumRuntime, security: ListenerSecurity = PLAINTEXT) -> Endpoint | None:
    """The endpoint of the quorum's leader, which is the active controller; None while it is unknown."""
    state, listener = runtime.node.quorum.state, runtime.config.listener
    where = state.leader_endpoints.get(listener) if state.leader_id >= 0 else None
    return None if where is None else Endpoint(where.port, where.host, listener, PROTOCOLS.index(security.protocol))


class MetadataObserver:
    """An observer that applies the log to an image, and calls `on_image` after each change."""

    def __init__(
        self,
        own: OwnLog,
        loader: MetadataLoader,
        on_image: Callable[[ImageChanged], None],
        need: SnapshotNeed,
        security: ListenerSecurity,
        release: str = DEFAULT_RELEASE,
    ) -> None:
        """`need`: decides when a snapshot is written, below which the log is deleted.

        `security`: the TLS and SASL settings of connections to the quorum.
        """
        hooks = RuntimeHooks(perform_own=self._perform_own)
        self.runtime = QuorumRuntime(*own, loader, hooks=hooks, security=security)
        self._loader, self._on_image, self._need, self._release = loader, on_image, need, release

    async def write_snapshots(self) -> None:
        """Writes snapshots when they are due (SnapshotGenerator). A failed snapshot is not repeated."""
        need, loader, runtime, counted = self._need, self._loader, self.runtime, 0
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_S)
            read, now_ms, offset = loader.read_bytes, runtime.clock.now_ms(), loader.end_offset
            need.count(read - counted)
            counted = read
            image = loader.image
            if image.in_transaction or FEATURE_NAME not in image.features or image.end_offset != offset:
                continue
            if (why := need.why(offset, now_ms)) is None:
                continue
            need.begin(offset, now_ms)
            snapshot = OffsetAndEpoch(offset, runtime.node.log.epoch_at(offset - 1))
            slices = snapshot_slices(image.copy(), None, snapshot.epoch, now_ms, _nothing, self._release)
            if await write_due_snapshot(runtime, snapshot, now_ms, slices, why):
                need.has_size(runtime.metrics.snapshots.latest_bytes)

    def _perform_own(self, effect: Any) -> None:
        if isinstance(effect, ImageChanged):
            self._on_image(effect)
        elif isinstance(effect, ReadSnapshotSlice):
            event, on_read_slice = self.runtime.machine_event, self._loader.on_read_slice
            asyncio.get_running_loop().call_soon(event, "snapshot slice read", on_read_slice)


def _nothing() -> None:
    """The `on_frozen` of a snapshot: does nothing, because only the snapshot uses the copy of the image."""
