"""The public names of the tools that read Kafka's files."""

from kcore.errors import ClusterFileError as ClusterFileError
from kcore.errors import FileKindError as FileKindError
from kcore.errors import StorageError as StorageError
from kcore.storage.raft.metadata_events import MetadataEvents as MetadataEvents
from kcore.storage.raft.metadata_log import load_metadata as load_metadata
from kcore.storage.tools.diverge import BatchPlace as BatchPlace
from kcore.storage.tools.diverge import Divergence as Divergence
from kcore.storage.tools.diverge import diverge as diverge
from kcore.storage.tools.diverge_dirs import diverge_log_dirs as diverge_log_dirs
