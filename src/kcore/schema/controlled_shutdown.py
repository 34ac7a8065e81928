"""ControlledShutdown: a broker asks the controller to move its leaders away before it stops."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ControlledShutdownRequest(Message, api_key=7, versions="0-3", flexible="3+"):
    """The broker that shuts down, and the epoch of its incarnation (KIP-380)."""

    broker_id: int32
    broker_epoch: int64 = field(versions="2+", default=-1, ignorable=True)

    @classmethod
    def header_version(cls, version: int) -> int:
        """Version 0 of this request has a header of its own, without a client id."""
        return 0 if version == 0 else super().header_version(version)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str
    partition_index: int32


class ControlledShutdownResponse(Message, api_key=7, versions="0-3", flexible="3+"):
    """The partitions that the broker still leads; it may stop when there are none."""

    error_code: int16
    remaining_partitions: list[RemainingPartition]
