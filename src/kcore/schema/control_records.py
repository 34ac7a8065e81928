"""Control records."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class ControlRecordTypeSchema(Data, versions="0", flexible="none"):
    """ControlRecordTypeSchema, as Kafka has it."""

    type: int16


class EndTxnMarker(Data, versions="0", flexible="none"):
    """EndTxnMarker, as Kafka has it."""

    coordinator_epoch: int32


class LeaderChangeMessageVoter(Struct, kafka_name="Voter"):
    """A part of LeaderChangeMessage."""

    voter_id: int32
    voter_directory_id: Uuid = field(versions="1+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """LeaderChangeMessage, as Kafka has it."""

    version: int16
    leader_id: int32
    voters: list[LeaderChangeMessageVoter]
    granting_voters: list[LeaderChangeMessageVoter]


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """KRaftVersionRecord, as Kafka has it."""

    version: int16
    kraft_version: int16 = field(json_name="kRaftVersion")


class Endpoint(Struct):
    """A part of VotersRecord."""

    name: str
    host: str
    port: uint16


class KRaftVersionFeature(Struct):
    """A part of VotersRecord."""

    min_supported_version: int16
    max_supported_version: int16


class VotersRecordVoter(Struct, kafka_name="Voter"):
    """A part of VotersRecord."""

    voter_id: int32
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature = field(json_name="kRaftVersionFeature")


class VotersRecord(Data, versions="0", flexible="0+"):
    """VotersRecord, as Kafka has it."""

    version: int16
    voters: list[VotersRecordVoter]


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """SnapshotHeaderRecord, as Kafka has it."""

    version: int16
    last_contained_log_timestamp: int64


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """SnapshotFooterRecord, as Kafka has it."""

    version: int16
