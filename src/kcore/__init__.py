"""The Kafka controller core: codec, tables, decisions, and the tool that measures them.

`kcore` itself has the names that most programs use. Each public name is also in one group:
- `kcore.wire` (bytes), `kcore.schema` (message classes), `kcore.tables` (the state of a cluster), `kcore.zk` and
  `kcore.kraft` (controllers and elections), `kcore.raft` (a node of a quorum).
- `kcore.whatif` (the loss of brokers, racks and directories; rolling restarts).
- `kcore.files` (Kafka's files), `kcore.spark` (DataFrames), `kcore.bench` (benchmark plans).

The groups need only NumPy, except `kcore.zk.election_policy` (kcore[numba]), `kcore.spark` (kcore[spark]) and
`kcore.bench` (kcore[report]). If an extra is missing, MissingExtraError names it. A public name keeps its meaning until
a release after the one that deprecates it.
"""

# A module is imported when one of its names is first used, so that `import kcore` takes almost no time. The first name
# also imports messages, tables and decisions, so that a program's first decision does not wait for imports.

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from kcore.errors import DecodeError as DecodeError
from kcore.errors import EncodeError as EncodeError
from kcore.errors import KcoreError as KcoreError
from kcore.errors import MissingExtraError as MissingExtraError
from kcore.errors import PlacementError as PlacementError
from kcore.errors import TableError as TableError
from kcore.errors import UnknownMessageError as UnknownMessageError
from kcore.errors import UnsupportedVersionError as UnsupportedVersionError
from kcore.version import __version__ as __version__

if TYPE_CHECKING:
    from kcore import bench as bench
    from kcore import files as files
    from kcore import kraft as kraft
    from kcore import raft as raft
    from kcore import schema as schema
    from kcore import spark as spark
    from kcore import tables as tables
    from kcore import whatif as whatif
    from kcore import wire as wire
    from kcore import zk as zk

    # Deprecated as names of `kcore`: use the same name in its group.
    from kcore.broker.zk_control.broker import Broker as Broker
    from kcore.controller.zk.events import BrokerFailed as BrokerFailed
    from kcore.controller.zk.events import BrokerStarted as BrokerStarted
    from kcore.controller.zk.events import ControlledShutdown as ControlledShutdown
    from kcore.controller.zk.events import PreferredElection as PreferredElection
    from kcore.controller.zk.zk_controller import ZkController as ZkController
    from kcore.measure.workloads.generate import generate as generate
    from kcore.metadata.image.image import ClusterImage as ClusterImage
    from kcore.metadata.table.broker_table import BrokerTable as BrokerTable
    from kcore.metadata.table.partition_table import PartitionTable as PartitionTable
    from kcore.protocol_errors import Errors as Errors
    from kcore.raft.log.memory_log import MemoryLog as MemoryLog
    from kcore.raft.node import RaftNode as RaftNode
    from kcore.raft.raft_config import RaftConfig as RaftConfig
    from kcore.replication.divergence import end_offset_for_epoch as end_offset_for_epoch
    from kcore.replication.divergence import truncation_offsets as truncation_offsets
    from kcore.replication.elect import elect as elect
    from kcore.replication.elect_one import elect_one as elect_one
    from kcore.replication.epochs import EpochTables as EpochTables
    from kcore.replication.placement import place as place
    from kcore.replication.policy import election_policy as election_policy
    from kcore.schema.catalogue import messages as messages
    from kcore.storage.raft.metadata_log import load_metadata as load_metadata
    from kcore.storage.tools.diverge import diverge as diverge
    from kcore.storage.tools.diverge_dirs import diverge_log_dirs as diverge_log_dirs
    from kcore.whatif.what_if import what_if as what_if
    from kcore.wire.codec import decode as decode
    from kcore.wire.codec import decode_from as decode_from
    from kcore.wire.codec import encode as encode
    from kcore.wire.column_codec import decode_columns as decode_columns
    from kcore.wire.column_codec import encode_columns as encode_columns
    from kcore.wire.columns import Columns as Columns
    from kcore.wire.columns import Rows as Rows
    from kcore.wire.columns import Strings as Strings
    from kcore.wire.columns import Vectors as Vectors
    from kcore.wire.fanout import Fanout as Fanout
    from kcore.wire.fanout import encode_fanout as encode_fanout
    from kcore.wire.jsonform import from_json as from_json
    from kcore.wire.jsonform import to_json as to_json
    from kcore.wire.metadata_frames import decode_metadata_record as decode_metadata_record
    from kcore.wire.metadata_frames import encode_metadata_record as encode_metadata_record
    from kcore.wire.record_batch import RecordBatches as RecordBatches
    from kcore.wire.record_batch import scan_batches as scan_batches
    from kcore.wire.record_building import encode_records as encode_records
    from kcore.wire.records import Record as Record
    from kcore.wire.records import Records as Records
    from kcore.wire.records import decode_records as decode_records

__all__ = [
    "DecodeError",
    "EncodeError",
    "Errors",
    "KcoreError",
    "MissingExtraError",
    "PartitionTable",
    "PlacementError",
    "TableError",
    "UnknownMessageError",
    "UnsupportedVersionError",
    "__version__",
    "decode",
    "decode_columns",
    "encode",
    "encode_columns",
    "from_json",
    "generate",
    "load_metadata",
    "messages",
    "to_json",
    "what_if",
]

_GROUPS = ("bench", "files", "kraft", "raft", "schema", "spark", "tables", "whatif", "wire", "zk")
_FIRST = ("kcore.tables", "kcore.wire", "kcore.replication.elect")  # Imported together with the first name.
_MODULE_OF = {
    "generate": "kcore.measure.workloads.generate",
    "PartitionTable": "kcore.metadata.table.partition_table",
    "Errors": "kcore.protocol_errors",
    "messages": "kcore.schema.catalogue",
    "load_metadata": "kcore.storage.raft.metadata_log",
    "decode": "kcore.wire.codec",
    "encode": "kcore.wire.codec",
    "decode_columns": "kcore.wire.column_codec",
    "encode_columns": "kcore.wire.column_codec",
    "from_json": "kcore.wire.jsonform",
    "to_json": "kcore.wire.jsonform",
    "what_if": "kcore.whatif.what_if",
}
_GROUP_OF = {  # Names that are deprecated in `kcore`, and the group to use instead.
    "Broker": "zk",
    "BrokerFailed": "zk",
    "BrokerStarted": "zk",
    "BrokerTable": "tables",
    "ClusterImage": "tables",
    "Columns": "wire",
    "ControlledShutdown": "zk",
    "EpochTables": "tables",
    "Fanout": "wire",
    "MemoryLog": "raft",
    "PreferredElection": "zk",
    "RaftConfig": "raft",
    "RaftNode": "raft",
    "Record": "wire",
    "RecordBatches": "wire",
    "Records": "wire",
    "Rows": "wire",
    "Strings": "wire",
    "Vectors": "wire",
    "ZkController": "zk",
    "decode_from": "wire",
    "decode_metadata_record": "wire",
    "decode_records": "wire",
    "diverge": "files",
    "diverge_log_dirs": "files",
    "elect": "zk",
    "elect_one": "zk",
    "election_policy": "zk",
    "encode_fanout": "wire",
    "encode_metadata_record": "wire",
    "encode_records": "wire",
    "end_offset_for_epoch": "tables",
    "place": "tables",
    "scan_batches": "wire",
    "truncation_offsets": "tables",
}


def __getattr__(name: str) -> Any:
    if name in _GROUPS:
        return import_module(f"kcore.{name}")
    if name == "elect":
        warn("kcore.elect is deprecated: use kcore.zk.elect or kcore.kraft.elect", DeprecationWarning, stacklevel=2)
        return import_module("kcore.replication.elect").elect
    if name in _GROUP_OF:
        home = f"kcore.{_GROUP_OF[name]}.{name}"
        warn(f"kcore.{name} is deprecated: use {home}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(f"kcore.{_GROUP_OF[name]}"), name)
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'kcore' has no attribute {name!r}")
    for module in _FIRST:
        import_module(module)
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_GROUPS})
