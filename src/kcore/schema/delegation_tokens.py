"""Delegation tokens: secrets with a short life, which replace a principal's own credentials (KIP-48)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class CreatableRenewers(Struct):
    """A principal who may renew the token, besides its owner."""

    principal_type: str
    principal_name: str


class CreateDelegationTokenRequest(Message, api_key=38, versions="0-3", flexible="2+"):
    """A principal requests a token, for itself or for another (KIP-373)."""

    # Type and name of the owner: null for the requesting principal.
    owner_principal_type: str | None = field(versions="3+", nullable="3+")
    owner_principal_name: str | None = field(versions="3+", nullable="3+")
    renewers: list[CreatableRenewers]
    max_lifetime_ms: int64  # -1 for the longest lifetime that the broker allows.


class CreateDelegationTokenResponse(Message, api_key=38, versions="0-3", flexible="2+"):
    """The new token."""

    error_code: int16
    principal_type: str  # Type of the owner.
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp_ms: int64
    expiry_timestamp_ms: int64  # The token expires then unless it is renewed.
    max_timestamp_ms: int64
    token_id: str
    hmac: bytes = field(secret=True)
    throttle_time_ms: int32


class RenewDelegationTokenRequest(Message, api_key=39, versions="0-2", flexible="2+"):
    """A renewer extends the life of a token."""

    hmac: bytes = field(secret=True)
    renew_period_ms: int64  # -1 for the broker's own period.


class RenewDelegationTokenResponse(Message, api_key=39, versions="0-2", flexible="2+"):
    """The new expiry time."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32


class ExpireDelegationTokenRequest(Message, api_key=40, versions="0-2", flexible="2+"):
    """A renewer shortens the life of a token."""

    hmac: bytes = field(secret=True)
    expiry_time_period_ms: int64  # Negative expires it at once.


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    """The new expiry time."""

    error_code: int16
    expiry_timestamp_ms: int64
    throttle_time_ms: int32


class DescribeDelegationTokenOwner(Struct):
    """A principal whose tokens are requested."""

    principal_type: str
    principal_name: str


class DescribeDelegationTokenRequest(Message, api_key=41, versions="0-3", flexible="2+"):
    """A principal asks for the tokens that it may describe."""

    owners: list[DescribeDelegationTokenOwner] | None = field(nullable="0+")  # Null asks for all.


class DescribedDelegationTokenRenewer(Struct):
    """A principal who may renew the token, besides its owner."""

    principal_type: str
    principal_name: str


class DescribedDelegationToken(Struct):
    """A token with its owner and its times."""

    principal_type: str  # Type of the owner.
    principal_name: str
    token_requester_principal_type: str = field(versions="3+")
    token_requester_principal_name: str = field(versions="3+")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: str
    hmac: bytes = field(secret=True)
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Message, api_key=41, versions="0-3", flexible="2+"):
    """The requested tokens."""

    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32
