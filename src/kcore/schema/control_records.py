"""Control records, which brokers and controllers write into logs for their own use."""

from kcore.schema.kinds import int16, int32, int64, uint16
from kcore.schema.structure import Data, Struct, field
from kcore.types import Uuid


class ControlRecordTypeSchema(Data, versions="0", flexible="none"):
    """The key of every control record; its version precedes it."""

    type: int16  # 0 abort, 1 commit, 2 leader change, 3 and 4 snapshot header and footer, 5 KRaft version, 6 voters.


class EndTxnMarker(Data, versions="0", flexible="none"):
    """The value of a commit or abort record, which ends a transaction (KIP-98); its version precedes it."""

    coordinator_epoch: int32


class LeaderChangeMessageVoter(Struct, kafka_name="Voter"):
    """A voter."""

    voter_id: int32
    voter_directory_id: Uuid = field(versions="1+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The first record of a new quorum leader (KIP-595)."""

    version: int16  # A field of the message, while in other data the version precedes the message.
    leader_id: int32
    voters: list[LeaderChangeMessageVoter]
    granting_voters: list[LeaderChangeMessageVoter]  # The voters that voted for the leader.


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The quorum's kraft.version (KIP-853)."""

    version: int16
    kraft_version: int16 = field(json_name="kRaftVersion")  # 0 voters from the configuration, 1 voters from the log.


class Endpoint(Struct):
    """One listener of a voter."""

    name: str
    host: str
    port: uint16


class KRaftVersionFeature(Struct):
    """The versions of `kraft.version` that the voter supports."""

    min_supported_version: int16
    max_supported_version: int16


class VotersRecordVoter(Struct, kafka_name="Voter"):
    """A voter, its directory and its endpoints."""

    voter_id: int32
    voter_directory_id: Uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature = field(json_name="kRaftVersionFeature")


class VotersRecord(Data, versions="0", flexible="0+"):
    """The quorum's voters from this offset on (KIP-853)."""

    version: int16
    voters: list[VotersRecordVoter]


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The first record of a snapshot (KIP-630)."""

    version: int16
    last_contained_log_timestamp: int64  # Time of the last record in the snapshot.


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The last record of a snapshot, which shows that the snapshot is complete (KIP-630)."""

    version: int16
