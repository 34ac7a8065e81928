"""SCRAM credentials that the cluster stores (KIP-554). Mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

from kcore.schema.kinds import int8, int16, int32
from kcore.schema.structure import Message, Struct, field


class UserName(Struct):
    """A user."""

    name: str


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """An administrator asks which users have SCRAM credentials."""

    users: list[UserName] | None = field(nullable="0+")  # Null or empty for all.


class CredentialInfo(Struct):
    """The mechanism and iterations of a user's credential, without its secrets."""

    mechanism: int8
    iterations: int32


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str
    error_code: int16
    error_message: str | None = field(nullable="0+")
    credential_infos: list[CredentialInfo]


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    """The credentials of the requested users, without secrets."""

    throttle_time_ms: int32
    error_code: int16
    error_message: str | None = field(nullable="0+")
    results: list[DescribeUserScramCredentialsResult]


class ScramCredentialDeletion(Struct):
    """A user's credential to delete."""

    name: str
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    """A user's credential to create or replace."""

    name: str
    mechanism: int8
    iterations: int32
    salt: bytes = field(secret=True)
    salted_password: bytes = field(secret=True)  # The client salts it, so the password is never sent.


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    """An administrator creates, replaces and deletes SCRAM credentials."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: str
    error_code: int16
    error_message: str | None = field(nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    """The controller's answer, user by user."""

    throttle_time_ms: int32
    results: list[AlterUserScramCredentialsResult]
