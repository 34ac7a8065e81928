"""The Kafka controller core: codec, tables, decisions, and the tool that measures them.

The public names are those of `__all__`, and the packages `kcore.schema` (messages as classes), `kcore.spark` (Kafka's
files as DataFrames) and `kcore.measure.bench` (benchmark plans). They need NumPy alone, but for: `election_policy`
(kcore[numba]), `kcore.spark` (kcore[spark]), `kcore.measure.bench` (kcore[report]). Where an extra is missing,
MissingExtraError names it. A public name keeps its meaning until a release after the one that deprecates it.
"""

# Everything is loaded when it is first named, so that `import kcore` costs next to nothing. The first name of all
# brings messages, tables and decisions together: no first decision pays for an import.

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    from kcore import schema as schema
    from kcore import spark as spark
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
    "Broker",
    "BrokerFailed",
    "BrokerStarted",
    "BrokerTable",
    "ClusterImage",
    "Columns",
    "ControlledShutdown",
    "DecodeError",
    "EncodeError",
    "EpochTables",
    "Errors",
    "Fanout",
    "KcoreError",
    "MemoryLog",
    "MissingExtraError",
    "PartitionTable",
    "PlacementError",
    "PreferredElection",
    "RaftConfig",
    "RaftNode",
    "Record",
    "RecordBatches",
    "Records",
    "Rows",
    "Strings",
    "TableError",
    "UnknownMessageError",
    "UnsupportedVersionError",
    "Vectors",
    "ZkController",
    "__version__",
    "decode",
    "decode_columns",
    "decode_from",
    "decode_metadata_record",
    "decode_records",
    "diverge",
    "diverge_log_dirs",
    "elect",
    "elect_one",
    "election_policy",
    "encode",
    "encode_columns",
    "encode_fanout",
    "encode_metadata_record",
    "encode_records",
    "end_offset_for_epoch",
    "from_json",
    "generate",
    "load_metadata",
    "messages",
    "place",
    "scan_batches",
    "to_json",
    "truncation_offsets",
]

_TOGETHER = {
    "kcore.metadata.table.broker_table": ("BrokerTable",),
    "kcore.metadata.table.partition_table": ("PartitionTable",),
    "kcore.replication.divergence": ("end_offset_for_epoch", "truncation_offsets"),
    "kcore.replication.elect": ("elect",),
    "kcore.replication.elect_one": ("elect_one",),
    "kcore.replication.epochs": ("EpochTables",),
    "kcore.replication.placement": ("place",),
    "kcore.wire.codec": ("decode", "decode_from", "encode"),
    "kcore.wire.column_codec": ("decode_columns", "encode_columns"),
    "kcore.wire.columns": ("Columns", "Rows", "Strings", "Vectors"),
    "kcore.wire.jsonform": ("from_json", "to_json"),
}
_LATER = _TOGETHER | {
    "kcore.broker.zk_control.broker": ("Broker",),
    "kcore.controller.zk.events": ("BrokerFailed", "BrokerStarted", "ControlledShutdown", "PreferredElection"),
    "kcore.controller.zk.zk_controller": ("ZkController",),
    "kcore.metadata.image.image": ("ClusterImage",),
    "kcore.protocol_errors": ("Errors",),
    "kcore.raft.raft_config": ("RaftConfig",),
    "kcore.raft.log.memory_log": ("MemoryLog",),
    "kcore.raft.node": ("RaftNode",),
    "kcore.replication.policy": ("election_policy",),
    "kcore.schema.catalogue": ("messages",),
    "kcore.storage.tools.diverge": ("diverge",),
    "kcore.storage.tools.diverge_dirs": ("diverge_log_dirs",),
    "kcore.storage.raft.metadata_log": ("load_metadata",),
    "kcore.wire.fanout": ("Fanout", "encode_fanout"),
    "kcore.wire.metadata_frames": ("decode_metadata_record", "encode_metadata_record"),
    "kcore.wire.record_batch": ("RecordBatches", "scan_batches"),
    "kcore.wire.record_building": ("encode_records",),
    "kcore.wire.records": ("Record", "Records", "decode_records"),
    "kcore.measure.workloads.generate": ("generate",),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}
_PACKAGES = ("bench", "schema", "spark")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"kcore.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'kcore' has no attribute {name!r}")
    for module in (*_TOGETHER, _MODULE_OF[name]):
        loaded = import_module(module)
        globals().update({each: getattr(loaded, each) for each in _LATER[module]})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
