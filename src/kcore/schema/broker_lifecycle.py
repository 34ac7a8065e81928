"""Broker lifecycle."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Message, Struct, field
from kcore.types import Uuid


class Listener(Struct):
    """A part of BrokerRegistrationRequest."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class Feature(Struct):
    """A part of BrokerRegistrationRequest."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    """BrokerRegistrationRequest, as Kafka has it."""

    broker_id: int32
    cluster_id: str
    incarnation_id: Uuid
    listeners: list[Listener]
    features: list[Feature]
    rack: str | None = field(nullable="0+")
    is_migrating_zk_broker: bool = field(versions="1+")
    log_dirs: list[Uuid] = field(versions="2+", ignorable=True)
    previous_broker_epoch: int64 = field(versions="3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    """BrokerRegistrationResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    broker_epoch: int64 = field(default=-1)


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    """BrokerHeartbeatRequest, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    current_metadata_offset: int64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[Uuid] = field(versions="1+", tag=0, tagged="1+")
    cordoned_log_dirs: list[Uuid] | None = field(versions="2+", nullable="2+", tag=1, tagged="2+", default=None)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    """BrokerHeartbeatResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    is_caught_up: bool
    is_fenced: bool = field(default=True)
    should_shut_down: bool


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    """UnregisterBrokerRequest, as Kafka has it."""

    broker_id: int32


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    """UnregisterBrokerResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    """ControllerRegistrationRequest, as Kafka has it."""

    controller_id: int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: list[Listener]
    features: list[Feature]


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    """ControllerRegistrationResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
