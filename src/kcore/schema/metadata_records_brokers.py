"""Metadata records brokers."""

from kcore.schema.kinds import int8, int16, int32, int64, uint16
from kcore.schema.structure import MetadataRecord, Struct, field
from kcore.types import Uuid


class BrokerEndpoint(Struct):
    """A part of RegisterBrokerRecord."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class BrokerFeature(Struct):
    """A part of RegisterBrokerRecord."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterBrokerRecord(MetadataRecord, api_key=0, versions="0-4", flexible="0+"):
    """RegisterBrokerRecord, as Kafka has it."""

    broker_id: int32
    is_migrating_zk_broker: bool = field(versions="2+")
    incarnation_id: Uuid
    broker_epoch: int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None = field(nullable="0+")
    fenced: bool = field(default=True)
    in_controlled_shutdown: bool = field(versions="1+")
    log_dirs: list[Uuid] = field(versions="3+", tag=0, tagged="3+")
    cordoned_log_dirs: list[Uuid] | None = field(versions="4+", nullable="4+", tag=1, tagged="4+", default=None)


class UnregisterBrokerRecord(MetadataRecord, api_key=1, versions="0", flexible="0+"):
    """UnregisterBrokerRecord, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64


class FenceBrokerRecord(MetadataRecord, api_key=7, versions="0", flexible="0+"):
    """FenceBrokerRecord, as Kafka has it."""

    id: int32
    epoch: int64


class UnfenceBrokerRecord(MetadataRecord, api_key=8, versions="0", flexible="0+"):
    """UnfenceBrokerRecord, as Kafka has it."""

    id: int32
    epoch: int64


class BrokerRegistrationChangeRecord(MetadataRecord, api_key=17, versions="0-3", flexible="0+"):
    """BrokerRegistrationChangeRecord, as Kafka has it."""

    broker_id: int32
    broker_epoch: int64
    fenced: int8 = field(tag=0, tagged="0+")
    in_controlled_shutdown: int8 = field(versions="1+", tag=1, tagged="1+")
    log_dirs: list[Uuid] = field(versions="2+", tag=2, tagged="2+")
    cordoned_log_dirs: list[Uuid] | None = field(versions="3+", nullable="3+", tag=3, tagged="3+", default=None)


class ControllerEndpoint(Struct):
    """A part of RegisterControllerRecord."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class ControllerFeature(Struct):
    """A part of RegisterControllerRecord."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterControllerRecord(MetadataRecord, api_key=27, versions="0", flexible="0+"):
    """RegisterControllerRecord, as Kafka has it."""

    controller_id: int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]
