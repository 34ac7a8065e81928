"""Brokers and controllers register with the active controller and send heartbeats (KIP-631)."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class Listener(Struct):
    """One listener of the node."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class Feature(Struct):
    """A feature and its levels that the node supports."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    """A starting broker registers with the active controller."""

    broker_id: int32
    cluster_id: str
    incarnation_id: Uuid  # New with every start of the process.
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None = field(nullable="0+")
    is_migrating_zk_broker: bool = field(versions="1+")  # KIP-866.
    log_dirs: list[Uuid] = field(versions="2+", ignorable=True)  # The ids of the broker's directories (KIP-858).
    # The broker epoch of its last registration, after a clean shutdown; -1 for unknown (KIP-966).
    previous_broker_epoch: int64 = field(versions="3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    """The result of the registration."""

    throttle_time_ms: int32
    error_code: int16
    # The epoch of this incarnation: the offset of the registration in the metadata log.
    broker_epoch: int64 = field(default=-1)


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    """A broker's heartbeat, with its offset in the metadata log and its wishes to be fenced or to shut down."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)  # The epoch of the broker's incarnation.
    current_metadata_offset: int64  # The offset up to which the broker has read the metadata log.
    want_fence: bool
    want_shut_down: bool  # The broker stops when the controller has moved its leaders away.
    offline_log_dirs: list[Uuid] = field(versions="1+", tag=0, tagged="1+")  # Directories that failed (KIP-858).
    # Directories that get no new replicas (KIP-1066); null while the broker starts.
    cordoned_log_dirs: list[Uuid] | None = field(versions="2+", nullable="2+", tag=1, tagged="2+", default=None)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    """The broker's state at the controller."""

    throttle_time_ms: int32
    error_code: int16
    is_caught_up: bool  # The broker has read nearly all of the metadata log.
    is_fenced: bool = field(default=True)
    should_shut_down: bool  # The broker leads no partition any more and may stop.


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    """An administrator unregisters a broker."""

    broker_id: int32


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    """The result of the unregistration."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    """A controller sends the active controller its listeners and features (KIP-919)."""

    controller_id: int32
    incarnation_id: Uuid  # New with every start of the process.
    zk_migration_ready: bool  # KIP-866.
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    """The result of the registration."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class UnregisterControllerRequest(Message, api_key=94, versions="0", flexible="0+"):
    """An administrator unregisters a controller (KIP-1312)."""

    controller_id: int32


class UnregisterControllerResponse(Message, api_key=94, versions="0", flexible="0+"):
    """The result of the unregistration."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
