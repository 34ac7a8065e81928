"""A node's metadata directory (`metadata.log.dir`): meta.properties, the stored election and the metadata log.

Source: MetaPropertiesEnsemble, FileQuorumStateStore, KafkaRaftManager.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from kcore.constants import METADATA_TOPIC
from kcore.errors import StorageError
from kcore.metadata.table.directory_table import is_reserved_directory
from kcore.raft.membership.replicas import NO_DIRECTORY, ElectionState, ReplicaKey
from kcore.replication.raft_log import NEWEST_LEVEL, Level
from kcore.schema.quorum_state import QuorumStateData, Voter
from kcore.storage.files import OS, FileSystem, is_there, naming, path_in, read_bytes, write_atomically
from kcore.storage.log.segmented_log import Settings
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, read_meta_properties, write_meta_properties
from kcore.storage.partition_metadata import PARTITION_METADATA, read_partition_metadata, write_partition_metadata
from kcore.storage.raft.file_raft_log import DiskRaftLog, Refusals
from kcore.storage.raft.quorum_state_file import format_quorum_state, parse_quorum_state, read_quorum_state
from kcore.types import METADATA_TOPIC_ID, Uuid

logger = logging.getLogger(__name__)
METADATA_FOLDER: Final = f"{METADATA_TOPIC}-0"
QUORUM_STATE: Final = "quorum-state"
_UNKNOWN: Final = -1


def random_directory_id() -> Uuid:
    """A random id that Kafka does not reserve. Never begins with "-", which a command line takes for an option."""
    while True:
        made = Uuid(secrets.token_bytes(16))
        if not is_reserved_directory(made) and not str(made).startswith("-"):
            return made


class RaftDirectory:
    """A formatted metadata directory of one node. A StorageError names the file and its fault."""

    def __init__(
        self,
        path: Path,
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
        voters: Sequence[int] = (),
        is_broker: bool = False,
        files: FileSystem = OS,
    ) -> None:
        """Reads meta.properties and checks `node_id` and `cluster_id`, if given.

        `voters` are the static voters, which version 0 of quorum-state has. With `is_broker`, meta.properties may have
        version 0, of ZooKeeper mode, as the broker may have migrated (KIP-866).
        """
        self.path, self._voters, self._is_broker, self._files = path, tuple(voters), is_broker, files
        self.folder = path_in(path, METADATA_FOLDER)
        self._quorum_state = path_in(self.folder, QUORUM_STATE)
        with Refusals(path):
            self.meta = self._read_meta(node_id, cluster_id)

    def _read_meta(self, node_id: int | None, cluster_id: str | None) -> MetaProperties:
        path = path_in(self.path, META_PROPERTIES)
        if not is_there(path, self._files):
            raise StorageError(f"{path}: the file does not exist: the directory is not formatted")
        meta = read_meta_properties(path, needs_cluster_id=False, files=self._files)
        with naming(path):
            if meta.version != 1 and not self._is_broker:
                raise StorageError(f"version {meta.version} is of a ZooKeeper cluster's broker, a quorum's node has 1")
            if node_id is not None and meta.node_id != node_id:
                raise StorageError(f"node.id is {meta.node_id}, not {node_id}")
            if cluster_id is not None and meta.cluster_id not in (None, cluster_id):
                raise StorageError(f"cluster.id is {meta.cluster_id}, not {cluster_id}")
        if meta.directory_id is None:  # Formatted by a release before KIP-858; as in Kafka, an id is generated.
            self._check_static(path)
            meta = replace(meta, directory_id=random_directory_id())
            logger.warning("%s: directory.id was not found: it is %s from now on", path, meta.directory_id)
            write_meta_properties(path, meta, self._files)
        return meta

    def _check_static(self, meta_path: Path) -> None:
        """Raises StorageError in a dynamic quorum, which identifies voters by their directory.id (KIP-853)."""
        if not is_there(self._quorum_state, self._files):
            return
        _, version = read_quorum_state(self._quorum_state, self._files)
        if version:
            raise StorageError(
                f"{meta_path}: directory.id was not found, by which the quorum knows this node: restore it"
            )

    @property
    def directory_id(self) -> Uuid:
        return self.meta.directory_id or NO_DIRECTORY

    @property
    def cluster_id(self) -> str | None:
        """The cluster id; None after a format without an id, until the first leader's id is committed (KIP-595)."""
        return self.meta.cluster_id

    def store_cluster_id(self, cluster_id: str) -> None:
        """Writes the cluster id to meta.properties; durable on return."""
        self.meta = replace(self.meta, cluster_id=cluster_id)
        with Refusals(self.path):
            write_meta_properties(path_in(self.path, META_PROPERTIES), self.meta, self._files)

    @property
    def node_id(self) -> int:
        return _UNKNOWN if self.meta.node_id is None else self.meta.node_id

    def open(
        self, settings: Settings | None = None, *, level: Level = NEWEST_LEVEL
    ) -> tuple[DiskRaftLog, ElectionState | None]:
        """The recovered log, with the rules of `level`, and the stored election; the caller closes the log."""
        log = self.open_log(settings, level)
        try:
            with Refusals(self.folder):
                self._check_topic_id()
                election = self.read_election()
                if election is None and log.end_offset > 0:
                    text = "%s does not exist, but the log has records: this node does not know its last vote"
                    logger.warning(text, self._quorum_state)
                return log, election
        except BaseException:
            log.abandon()
            raise

    def open_log(self, settings: Settings | None, level: Level) -> DiskRaftLog:
        """The recovered log, with the rules of `level`; the caller closes it."""
        return DiskRaftLog(self.folder, settings, level=level, files=self._files)

    def _check_topic_id(self) -> None:
        path = path_in(self.folder, PARTITION_METADATA)
        if not is_there(path, self._files):
            write_partition_metadata(path, METADATA_TOPIC_ID, self._files)
        elif (topic_id := read_partition_metadata(path, self._files)) != METADATA_TOPIC_ID:
            raise StorageError(f"{path}: topic_id is {topic_id}, not the metadata's {METADATA_TOPIC_ID}")

    def read_election(self) -> ElectionState | None:
        """The election that was stored last; None if none was stored."""
        return read_election(self.folder, self._files)

    def store_election(self, election: ElectionState, kraft_version: int) -> None:
        """Writes the election to quorum-state; durable on return. A crash leaves the old or the new content."""
        data = _bytes_of(election, min(kraft_version, 1), self._voters)
        with Refusals(self.folder):
            write_atomically(self._quorum_state, data, self._files)


def read_election(folder: Path, files: FileSystem = OS) -> ElectionState | None:
    """The election in a folder's quorum-state; None without the file. A StorageError names the file and its fault."""
    path = path_in(folder, QUORUM_STATE)
    if not is_there(path, files):
        return None
    with naming(path):
        return _election_of(read_bytes(path, files=files))


# Both are cached: a file is read again after it was written or read, and many nodes store the same election.


@lru_cache(maxsize=64)
def _election_of(data: bytes) -> ElectionState:
    state, _ = parse_quorum_state(data)
    voted = None if state.voted_id < 0 else ReplicaKey(state.voted_id, Uuid(state.voted_directory_id))
    return ElectionState(state.leader_epoch, state.leader_id, voted)


@lru_cache(maxsize=64)
def _bytes_of(election: ElectionState, version: int, voters: tuple[int, ...]) -> bytes:
    """The content of quorum-state in `version`; `voters` are the static voters, which only version 0 has."""
    voted = election.voted or ReplicaKey(_UNKNOWN)
    state = QuorumStateData(leader_id=election.leader_id, leader_epoch=election.epoch, voted_id=voted.id)
    if version:
        state.voted_directory_id = voted.directory_id
    else:
        state.current_voters = [Voter(voter_id=voter_id) for voter_id in voters]
    return format_quorum_state(state, version)


class DirectoryElections(NamedTuple):
    """Reads and writes a directory's quorum-state, where a node stores its epoch and its vote."""

    directory: RaftDirectory
    at_start: ElectionState | None

    def read(self) -> ElectionState | None:
        """The election that was stored when the node started."""
        return self.at_start

    def write(self, election: ElectionState, kraft_version: int) -> None:
        """Stores an election; durable on return."""
        self.directory.store_election(election, kraft_version)
