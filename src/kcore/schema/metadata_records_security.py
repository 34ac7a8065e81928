"""Records of the metadata log: access control, SCRAM credentials (KIP-900), delegation tokens."""

from kcore.schema.kinds import int8, int32, int64
from kcore.schema.structure import MetadataRecord, field
from kcore.types import Uuid


class AccessControlEntryRecord(MetadataRecord, api_key=18, versions="0", flexible="0+"):
    """An ACL entry was created (KIP-801)."""

    id: Uuid
    resource_type: int8
    resource_name: str
    pattern_type: int8  # 3 literal, 4 prefixed.
    principal: str
    host: str
    operation: int8
    permission_type: int8  # 2 deny, 3 allow.


class RemoveAccessControlEntryRecord(MetadataRecord, api_key=19, versions="0", flexible="0+"):
    """An ACL entry was deleted."""

    id: Uuid


class UserScramCredentialRecord(MetadataRecord, api_key=11, versions="0", flexible="0+"):
    """A user's SCRAM credential was created or replaced."""

    name: str
    mechanism: int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    salt: bytes = field(secret=True)
    stored_key: bytes = field(secret=True)
    server_key: bytes = field(secret=True)
    iterations: int32


class RemoveUserScramCredentialRecord(MetadataRecord, api_key=22, versions="0", flexible="0+"):
    """A user's SCRAM credential was deleted."""

    name: str
    mechanism: int8


class DelegationTokenRecord(MetadataRecord, api_key=10, versions="0", flexible="0+"):
    """A delegation token was created or renewed; its secret is derived from its id."""

    owner: str
    requester: str  # The principal that requested the token, for itself or for the owner (KIP-373).
    renewers: list[str]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: str


class RemoveDelegationTokenRecord(MetadataRecord, api_key=26, versions="0", flexible="0+"):
    """A delegation token was removed."""

    token_id: str
