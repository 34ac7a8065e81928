"""Metadata records security."""

from kcore.schema.kinds import int8, int32, int64
from kcore.schema.structure import MetadataRecord
from kcore.types import Uuid


class AccessControlEntryRecord(MetadataRecord, api_key=18, versions="0", flexible="0+"):
    """AccessControlEntryRecord, as Kafka has it."""

    id: Uuid
    resource_type: int8
    resource_name: str
    pattern_type: int8
    principal: str
    host: str
    operation: int8
    permission_type: int8


class RemoveAccessControlEntryRecord(MetadataRecord, api_key=19, versions="0", flexible="0+"):
    """RemoveAccessControlEntryRecord, as Kafka has it."""

    id: Uuid


class UserScramCredentialRecord(MetadataRecord, api_key=11, versions="0", flexible="0+"):
    """UserScramCredentialRecord, as Kafka has it."""

    name: str
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32


class RemoveUserScramCredentialRecord(MetadataRecord, api_key=22, versions="0", flexible="0+"):
    """RemoveUserScramCredentialRecord, as Kafka has it."""

    name: str
    mechanism: int8


class DelegationTokenRecord(MetadataRecord, api_key=10, versions="0", flexible="0+"):
    """DelegationTokenRecord, as Kafka has it."""

    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: str


class RemoveDelegationTokenRecord(MetadataRecord, api_key=26, versions="0", flexible="0+"):
    """RemoveDelegationTokenRecord, as Kafka has it."""

    token_id: str
