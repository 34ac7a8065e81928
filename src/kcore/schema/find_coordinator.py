"""Find coordinator."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """FindCoordinatorRequest, as Kafka has it."""

    key: str = field(versions="0-3")
    key_type: int8 = field(versions="1+")
    coordinator_keys: list[str] = field(versions="4+")


class Coordinator(Struct):
    """A part of FindCoordinatorResponse."""

    key: str
    node_id: int32
    host: str
    port: int32
    error_code: int16
    error_message: str | None = field(nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """FindCoordinatorResponse, as Kafka has it."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16 = field(versions="0-3")
    error_message: str | None = field(versions="1-3", nullable="1-3", ignorable=True)
    node_id: int32 = field(versions="0-3")
    host: str = field(versions="0-3")
    port: int32 = field(versions="0-3")
    coordinators: list[Coordinator] = field(versions="4+")
