"""Scram."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class UserName(Struct):
    """A part of DescribeUserScramCredentialsRequest."""

    name: str


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """DescribeUserScramCredentialsRequest, as Kafka has it."""

    users: list[UserName] | None = field(nullable="0+")


class CredentialInfo(Struct):
    """A part of DescribeUserScramCredentialsResponse."""

    mechanism: int8
    iterations: int32


class DescribeUserScramCredentialsResult(Struct):
    """A part of DescribeUserScramCredentialsResponse."""

    user: str
    error_code: int16
    error_message: str | None = field(nullable="0+")
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    """DescribeUserScramCredentialsResponse, as Kafka has it."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    results: list[DescribeUserScramCredentialsResult]


class ScramCredentialDeletion(Struct):
    """A part of AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    """A part of AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int8
    iterations: int32
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    """AlterUserScramCredentialsRequest, as Kafka has it."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    """A part of AlterUserScramCredentialsResponse."""

    user: str
    error_code: int16
    error_message: str | None = field(nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    """AlterUserScramCredentialsResponse, as Kafka has it."""

    throttle_time_ms: int32
    results: list[AlterUserScramCredentialsResult]
