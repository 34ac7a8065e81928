"""Records of the metadata log: brokers and controllers (KIP-631)."""

from kcore.schema.kinds import int8, int16, int32, int64, uint16
from kcore.schema.structure import MetadataRecord, Struct, field
from kcore.types import Uuid


class BrokerEndpoint(Struct):
    """One listener of a broker."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class BrokerFeature(Struct):
    """A feature and its levels that the broker supports."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterBrokerRecord(MetadataRecord, api_key=0, versions="0-4", flexible="0+"):
    """A broker registered."""

    broker_id: int32
    is_migrating_zk_broker: bool = field(versions="2+")  # KIP-866.
    incarnation_id: Uuid  # New with every start of the process.
    broker_epoch: int64
    end_points: list[BrokerEndpoint]
    features: list[BrokerFeature]
    rack: str | None = field(nullable="0+")
    fenced: bool = field(default=True)  # A fenced broker leads no partition and is in no ISR.
    in_controlled_shutdown: bool = field(versions="1+")  # KIP-841.
    log_dirs: list[Uuid] = field(versions="3+", tag=0, tagged="3+")  # The ids of the broker's directories (KIP-858).
    # Directories that get no new replicas (KIP-1066); null if the broker has not reported them.
    cordoned_log_dirs: list[Uuid] | None = field(versions="4+", nullable="4+", tag=1, tagged="4+", default=None)


class UnregisterBrokerRecord(MetadataRecord, api_key=1, versions="0", flexible="0+"):
    """A broker was unregistered."""

    broker_id: int32
    broker_epoch: int64


class FenceBrokerRecord(MetadataRecord, api_key=7, versions="0", flexible="0+"):
    """A broker was fenced. Since 3.3 a BrokerRegistrationChangeRecord replaces this record."""

    id: int32
    epoch: int64


class UnfenceBrokerRecord(MetadataRecord, api_key=8, versions="0", flexible="0+"):
    """A broker was unfenced. Since 3.3 a BrokerRegistrationChangeRecord replaces this record."""

    id: int32
    epoch: int64


class BrokerRegistrationChangeRecord(MetadataRecord, api_key=17, versions="0-3", flexible="0+"):
    """A broker's registration changed."""

    broker_id: int32
    broker_epoch: int64
    fenced: int8 = field(tag=0, tagged="0+")  # 1 fenced, -1 unfenced, 0 no change.
    in_controlled_shutdown: int8 = field(versions="1+", tag=1, tagged="1+")  # 1 it has begun, 0 no change (KIP-841).
    log_dirs: list[Uuid] = field(versions="2+", tag=2, tagged="2+")  # Empty for no change (KIP-858).
    # Null for no change (KIP-1066).
    cordoned_log_dirs: list[Uuid] | None = field(versions="3+", nullable="3+", tag=3, tagged="3+", default=None)


class ControllerEndpoint(Struct):
    """One listener of a controller."""

    name: str
    host: str
    port: uint16
    security_protocol: int16


class ControllerFeature(Struct):
    """A feature and its levels that the controller supports."""

    name: str
    min_supported_version: int16
    max_supported_version: int16


class RegisterControllerRecord(MetadataRecord, api_key=27, versions="0", flexible="0+"):
    """A controller registered with its listeners and features (KIP-919)."""

    controller_id: int32
    incarnation_id: Uuid  # New with every start of the process.
    zk_migration_ready: bool  # KIP-866.
    end_points: list[ControllerEndpoint]
    features: list[ControllerFeature]


class UnregisterControllerRecord(MetadataRecord, api_key=29, versions="0", flexible="0+"):
    """A controller was unregistered (KIP-1312)."""

    controller_id: int32
