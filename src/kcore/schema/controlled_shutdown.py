"""ControlledShutdown: a broker asks the controller to move its leaders away before it stops."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    """A broker that wants to stop asks the controller to move its leaders away."""

    broker_id: int32
    broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of the RequestHeader: 0, without a client id, for version 0 of this request."""
        return 0 if version == 0 else super().header_version(version)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str
    partition_index: int32


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    """The partitions that the broker still leads; it may stop when there are none."""

    error_code: int16
    remaining_partitions: list[RemainingPartition]
