"""FindCoordinator: the broker that coordinates a group or a transaction."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """A client asks any broker for the coordinator of a key."""

    key: str = field(versions="0-3")
    key_type: int8 = field(versions="1+")  # 0 a group, 1 a transactional id (KIP-98), 2 a share partition (KIP-932).
    coordinator_keys: list[str] = field(versions="4+")  # Several keys in one request (KIP-699).


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str
    node_id: int32
    host: str
    port: int32
    error_code: int16
    error_message: str | None = field(nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """The coordinator of the key, or since version 4 of each key."""

    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    error_code: int16 = field(versions="0-3")
    error_message: str | None = field(versions="1-3", nullable="1-3", ignorable=True)
    node_id: int32 = field(versions="0-3")
    host: str = field(versions="0-3")
    port: int32 = field(versions="0-3")
    coordinators: list[Coordinator] = field(versions="4+")
