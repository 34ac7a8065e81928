"""Delegation tokens."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class CreatableRenewers(Struct):
    """A part of CreateDelegationTokenRequest."""

    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest(Message, api_key=38, versions="0-3", flexible="2+"):
    """CreateDelegationTokenRequest, as Kafka has it."""

    owner_principal_type: str | None = field(versions="3+", nullable="3+")
    owner_principal_name: str | None = field(versions="3+", nullable="3+")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64


class CreateDelegationTokenResponse(Message, api_key=38, versions="0-3", flexible="2+"):
    """CreateDelegationTokenResponse, as Kafka has it."""

    error_code: int16
    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64
    max_timestamp_ms: int64
    token_id: str
    hmac: bytes
    throttle_time_ms: int32


class RenewDelegationTokenRequest(Message, api_key=39, versions="0-2", flexible="2+"):
    """RenewDelegationTokenRequest, as Kafka has it."""

    hmac: bytes
    renew_period_ms: int64


class RenewDelegationTokenResponse(Message, api_key=39, versions="0-2", flexible="2+"):
    """RenewDelegationTokenResponse, as Kafka has it."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32


class ExpireDelegationTokenRequest(Message, api_key=40, versions="0-2", flexible="2+"):
    """ExpireDelegationTokenRequest, as Kafka has it."""

    hmac: bytes
    expiry_time_period_ms: int64


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    """ExpireDelegationTokenResponse, as Kafka has it."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32


class DescribeDelegationTokenOwner(Struct):
    """A part of DescribeDelegationTokenRequest."""

    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest(Message, api_key=41, versions="0-3", flexible="2+"):
    """DescribeDelegationTokenRequest, as Kafka has it."""

    owners: list[DescribeDelegationTokenOwner] | None = field(nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    """A part of DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str


class DescribedDelegationToken(Struct):
    """A part of DescribeDelegationTokenResponse."""

    principal_type: str
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: str
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Message, api_key=41, versions="0-3", flexible="2+"):
    """DescribeDelegationTokenResponse, as Kafka has it."""

    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32
