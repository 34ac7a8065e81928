"""The Kafka controller core: codec, tables, decisions, and the tool that measures them."""

from importlib import import_module
from types import ModuleType

from kcore import schema as schema
from kcore.broker.broker import Broker as Broker
from kcore.controller.events import BrokerFailed as BrokerFailed
from kcore.controller.events import BrokerStarted as BrokerStarted
from kcore.controller.events import ControlledShutdown as ControlledShutdown
from kcore.controller.events import PreferredElection as PreferredElection
from kcore.controller.zk_controller import ZkController as ZkController
from kcore.errors import DecodeError as DecodeError
from kcore.errors import EncodeError as EncodeError
from kcore.errors import KcoreError as KcoreError
from kcore.errors import PlacementError as PlacementError
from kcore.errors import TableError as TableError
from kcore.errors import UnknownMessageError as UnknownMessageError
from kcore.errors import UnsupportedVersionError as UnsupportedVersionError
from kcore.metadata.broker_table import BrokerTable as BrokerTable
from kcore.metadata.partition_table import PartitionTable as PartitionTable
from kcore.protocol_errors import Errors as Errors
from kcore.replication.divergence import end_offset_for_epoch as end_offset_for_epoch
from kcore.replication.divergence import truncation_offsets as truncation_offsets
from kcore.replication.election import elect as elect
from kcore.replication.election_rules import elect_one as elect_one
from kcore.replication.epochs import EpochTables as EpochTables
from kcore.replication.placement import place as place
from kcore.replication.policy import election_policy as election_policy
from kcore.wire.codec import decode as decode
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
from kcore.workloads.generate import generate as generate


def __getattr__(name: str) -> ModuleType:
    """`kcore.bench` is loaded when it is used: Arrow and Spark take longer than all the rest."""
    if name == "bench":
        return import_module("kcore.bench")
    raise AttributeError(f"module 'kcore' has no attribute {name!r}")
