"""The cluster that a user names: a file or folder, a running ZooKeeper, or brokers."""

from pathlib import Path
from typing import Final, NamedTuple

from kcore.cli.console import say
from kcore.errors import StorageError
from kcore.measure.report.exits import Exit
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.newer_records import SkippedRecords
from kcore.sources.cluster_files import is_dump, is_shape
from kcore.sources.load import is_running, load_cluster
from kcore.storage.files import is_there, open_reader
from kcore.storage.log.segment import SEGMENT_NAME
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.snapshot import is_snapshot
from kcore.storage.tools.foreign import HEAD_BYTES, foreign_kind

SOURCES: Final = (
    "A log directory, a metadata log's folder or segment, a snapshot, a ZooKeeper dump, a shape file, "
    "zk://HOST:PORT,.../CHROOT, or HOST:PORT,... of brokers."
)


class ClusterFile(NamedTuple):
    """A cluster, the problem that ended the reading early, or "", and what only a newer release can read."""

    image: ClusterImage
    problem: str
    newer: SkippedRecords

    def report(self) -> Exit:
        """Prints what could not be read; exit code 1 if there is anything."""
        for each in filter(None, (self.problem, str(self.newer))):
            say(f"kcore: {each}", err=True)
        return Exit.FAILED if self.problem or self.newer.count else Exit.GOOD


def cluster_in(source: str, command_config: Path | None = None) -> ClusterFile:
    """Reads the cluster of a source, as `load_cluster` does; a damaged metadata log is read up to its problem.

    KcoreError if there is no cluster, OSError for an unreadable file.
    """
    if not source or is_running(source):
        return ClusterFile(load_cluster(source, command_config=command_config), "", SkippedRecords())
    path = Path(source)
    if not is_there(path):
        raise StorageError(f"{path}: there is no such file or folder{', and it is not HOST:PORT' * (':' in source)}")
    if not path.is_dir():
        with open_reader(path) as file:
            head = file.read(HEAD_BYTES)
        if (kind := foreign_kind(head)) is not None:
            raise StorageError(f"{path}: it is {kind}")
        if is_dump(head) or is_shape(head):
            return ClusterFile(load_cluster(path), "", SkippedRecords())
        if not (SEGMENT_NAME.fullmatch(path.name) or is_snapshot(path.name)):
            raise StorageError(
                f"{path}: no cluster is in this file: give a segment (.log) or a snapshot (.checkpoint) of a metadata "
                "log, a ZooKeeper dump, or a shape file"
            )
    image = load_metadata(path, stop=True)
    if not image.records and not image.problem:
        raise StorageError(f"{path}: no metadata record is in it: `kcore dump` shows what is")
    return ClusterFile(image, image.problem, image.newer)
