"""An observer of a quorum in the process of a test: it keeps the log, and how far it is committed."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Never

from kcore.raft.log.memory_log import MemoryLog
from kcore.raft.membership.replicas import Address, Voter
from kcore.raft.raft_config import RaftConfig
from kcore.raft.state_machine import AnyAppend, SnapshotReader
from kcore.server.quorum_node.elections import MemoryElections
from kcore.server.quorum_node.quorum_server import QuorumServer
from kcore.types import Uuid

OBSERVER_ID = 999


class Observer:
    """The state machine of an observer, and its server; a call that only a voter's machine may get fails the test."""

    reads_batches: ClassVar = False
    is_at_work: ClassVar = False

    def __init__(
        self, cluster_id: str, random: Random, *, voters: Sequence[Voter] = (), bootstrap: Sequence[Address] = ()
    ) -> None:
        """Knows the static `voters`, or asks the nodes of `bootstrap`."""
        self.log, self.committed = MemoryLog(), 0
        config = RaftConfig(
            *(cluster_id, OBSERVER_ID, Uuid(bytes(15) + b"\7"), {}, random.randrange),
            voters=tuple(voters),
            bootstrap_servers=tuple(bootstrap),
            can_become_voter=False,
            metadata_max_retention_bytes=-1,
        )
        self.server = QuorumServer(
            config, self.log, MemoryElections(), host="127.0.0.1", port=0, machine=self, stop_ms=100
        )

    def check_server(self) -> None:
        """Raises what ended the server, if anything has."""
        self.server.runtime.lifetime.check()

    def on_committed(self, batches: bytes, end_offset: int) -> Sequence[Never]:
        self.committed = end_offset
        return ()

    def on_snapshot(self, reader: SnapshotReader) -> Sequence[Never]:
        reader.close()
        self.committed = reader.snapshot.offset
        return ()

    def on_leader(self, epoch: int, offset: int) -> Sequence[Never]:
        raise AssertionError(f"an observer leads epoch {epoch}")

    def on_resigned(self, epoch: int) -> Sequence[Never]:
        raise AssertionError(f"an observer led epoch {epoch}")

    def on_refused(self, append: AnyAppend, next_offset: int) -> Sequence[Never]:
        raise AssertionError(f"an observer appended {append}")
