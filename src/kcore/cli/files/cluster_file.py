"""The cluster in a file or folder that a user names: a metadata log, a snapshot, a ZooKeeper dump, or a shape file."""

from pathlib import Path
from typing import Final, NamedTuple

from kcore.cli.console import say
from kcore.errors import StorageError
from kcore.measure.report.exits import Exit
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.newer_records import SkippedRecords
from kcore.metadata.shape.shape_reader import image_of, parse_shape
from kcore.metadata.table.partition_table import PartitionTable
from kcore.storage.files import MOST_CLUSTER_FILE, is_there, open_reader, read_text
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.tools.foreign import HEAD_BYTES, foreign_kind

DUMP_BEGINS: Final = b"/"  # The first line of a ZooKeeper dump is the path of a znode.
SHAPE_BEGINS: Final = b"{"


class ClusterFile(NamedTuple):
    """A cluster, the problem that ended the reading early, or "", and what only a newer release can read."""

    cluster: ClusterImage | PartitionTable
    problem: str
    newer: SkippedRecords

    @property
    def table(self) -> PartitionTable:
        """The partitions."""
        return self.cluster if isinstance(self.cluster, PartitionTable) else self.cluster.table

    def report(self) -> Exit:
        """Prints what could not be read; exit code 1 if there is anything."""
        for each in filter(None, (self.problem, str(self.newer))):
            say(f"kcore: {each}", err=True)
        return Exit.FAILED if self.problem or self.newer.count else Exit.GOOD


def cluster_in(path: Path) -> ClusterFile:
    """Reads the cluster; StorageError or another KcoreError for anything else, OSError for an unreadable file."""
    if not is_there(path):
        raise StorageError(f"{path}: there is no such file or folder")
    if path.is_file():
        with open_reader(path) as file:
            head = file.read(HEAD_BYTES)
        if (kind := foreign_kind(head)) is not None:
            raise StorageError(f"{path}: it is {kind}")
        if head.startswith(DUMP_BEGINS):
            table = PartitionTable.from_zookeeper_dump(read_text(path, MOST_CLUSTER_FILE))
            return ClusterFile(table, "", SkippedRecords())
        if head.lstrip().startswith(SHAPE_BEGINS):
            return ClusterFile(image_of(parse_shape(read_text(path, MOST_CLUSTER_FILE))), "", SkippedRecords())
    image = load_metadata(path, stop=True)
    if not image.records and not image.problem:
        raise StorageError(f"{path}: no metadata record is in it: `kcore dump` shows what is")
    return ClusterFile(image, image.problem, image.newer)
