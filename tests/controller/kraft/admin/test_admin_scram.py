"""SCRAM credentials, beyond what stories of a real controller show."""

import hashlib
import hmac

import pytest

from controller.kraft.contexts import a_context, applied, at_once, in_parts
from kcore.controller.kraft.admin import scram
from kcore.controller.kraft.admin.scram import on_alter_user_scram_credentials, on_describe_user_scram_credentials
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.protocol_errors import Errors
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

INFO = RequestInfo(0, 0)


def upsertion(name: str = "alice", mechanism: int = 1, **values: object) -> ScramCredentialUpsertion:
    given = {"iterations": 4096, "salt": b"salt", "salted_password": b"swordfish"}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, **{**given, **values})


def altered(
    context: ControllerContext, *made: ScramCredentialUpsertion, gone: tuple[tuple[str, int], ...] = ()
) -> Decision:
    deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in gone]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[*made])
    return at_once(on_alter_user_scram_credentials(context, request, INFO))


def described(context: ControllerContext, users: list[UserName] | None) -> Decision:
    request = DescribeUserScramCredentialsRequest(users=users)
    return at_once(on_describe_user_scram_credentials(context, request, INFO))


def errors(decision: Decision) -> dict[str, int]:
    return {each.user: each.error_code for each in decision.response.results}


def test_a_credential_is_made_replaced_and_deleted() -> None:
    context = a_context()
    applied(context, altered(context, upsertion()))
    applied(context, altered(context, upsertion(iterations=8192)))
    assert context.image.scram[1, "alice"].iterations == 8192
    applied(context, altered(context, gone=(("alice", 1),)))
    assert not context.image.scram
    assert errors(altered(context, gone=(("alice", 1),))) == {"alice": Errors.RESOURCE_NOT_FOUND}


def test_many_users_are_changed_and_described_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decisions are those of one part."""
    context, gone = a_context(), tuple((f"u{number}", 1) for number in range(20))
    applied(context, altered(context, *(upsertion(name) for name, _ in gone[:10])))
    made = [upsertion(f"u{number}", 2) for number in range(15, 40)]
    whole = altered(context, *made, gone=gone)
    monkeypatch.setattr(scram, "USERS_AT_ONCE", 5)
    deletions = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in gone]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=made)
    decision, parts = in_parts(on_alter_user_scram_credentials(context, request, INFO))
    assert decision == whole and len(decision.records) == 10 + 20
    assert parts == 1 + 20 // 5 + 25 // 5 + 40 // 5, "deletions, upsertions, and answers"
    described = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name, _ in gone])
    decision, parts = in_parts(on_describe_user_scram_credentials(context, described, INFO))
    assert len(decision.response.results) == 20 and parts == 1 + 20 // 5


def test_two_changes_of_a_user_are_none() -> None:
    context = a_context()
    applied(context, altered(context, upsertion()))
    decision = altered(context, upsertion(mechanism=2), upsertion("bob"), gone=(("alice", 1),))
    assert errors(decision) == {"alice": Errors.DUPLICATE_RESOURCE, "bob": Errors.NONE}
    assert len(decision.records) == 1


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"iterations": 4095}, Errors.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, Errors.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16384}, Errors.NONE),
        ({"salted_password": b""}, Errors.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b"s" * 1025}, Errors.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b"s" * 1025}, Errors.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b"s" * 1024, "salted_password": b"s" * 1024}, Errors.NONE),
        ({"mechanism": 3}, Errors.UNSUPPORTED_SASL_MECHANISM),
        ({"mechanism": 0}, Errors.UNSUPPORTED_SASL_MECHANISM),
        ({"name": ""}, Errors.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_credentials_that_are_refused(values: dict[str, object], error: Errors) -> None:
    decision = altered(a_context(), upsertion(**values))
    assert [*errors(decision).values()] == [error]
    assert len(decision.records) == (error == Errors.NONE)
    assert all("swordfish" not in (each.error_message or "") for each in decision.response.results)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"iterations": 4095, "salted_password": b""}, "Too few iterations"),
        ({"iterations": 16385, "salted_password": b""}, "Too many iterations"),
        ({"salt": b"s" * 1025, "salted_password": b""}, "Salted password must not be empty"),
        ({"salt": b"s" * 1025}, "A salt or salted password must not have more than 1024 bytes"),
        ({"mechanism": 9, "iterations": 1, "salted_password": b""}, "Unknown SCRAM mechanism"),
        ({"mechanism": 9, "iterations": 99_999}, "Unknown SCRAM mechanism"),
        ({"mechanism": 9, "salt": b"s" * 1025}, "Unknown SCRAM mechanism"),
        ({"name": "", "mechanism": 9, "iterations": 1}, "Username must not be empty"),
        ({}, None),
    ],
)
def test_the_first_of_several_reasons_is_reported(values: dict[str, object], message: str | None) -> None:
    [result] = altered(a_context(), upsertion(**values)).response.results
    assert result.error_message == message


@pytest.mark.parametrize(("mechanism", "digest"), [(1, "sha256"), (2, "sha512")])
def test_the_two_keys_are_kept_and_not_what_was_sent(mechanism: int, digest: str) -> None:
    """StoredKey and ServerKey of RFC 5802."""
    [made] = altered(a_context(), upsertion(mechanism=mechanism)).records
    assert isinstance(made, Versioned)
    client_key = hmac.digest(b"swordfish", b"Client Key", digest)
    wanted = hashlib.new(digest, client_key).digest(), hmac.digest(b"swordfish", b"Server Key", digest)
    record = made.record
    assert (record.stored_key, record.server_key) == wanted
    assert (record.name, record.mechanism, record.salt, record.iterations) == ("alice", mechanism, b"salt", 4096)


@pytest.mark.parametrize(
    ("gone", "error"),
    [
        ([("", 1)], Errors.UNACCEPTABLE_CREDENTIAL),
        ([("alice", 0)], Errors.UNSUPPORTED_SASL_MECHANISM),
        ([("alice", 2)], Errors.RESOURCE_NOT_FOUND),
        ([("alice", 1), ("alice", 1)], Errors.DUPLICATE_RESOURCE),
        ([("alice", 1), ("alice", 1), ("alice", 1)], Errors.DUPLICATE_RESOURCE),
        ([("alice", 2), ("alice", 1)], Errors.RESOURCE_NOT_FOUND),
    ],
)
def test_deletions_that_are_refused(gone: list[tuple[str, int]], error: Errors) -> None:
    context = a_context()
    applied(context, altered(context, upsertion(), upsertion("bob")))
    decision = altered(context, gone=(*gone, ("bob", 1)))
    assert errors(decision) == {gone[0][0]: error, "bob": Errors.NONE}
    assert len(decision.records) == 1


def test_of_a_user_who_is_named_several_times_nothing_is_made() -> None:
    decision = altered(a_context(), upsertion(), upsertion(mechanism=2), upsertion(), upsertion("bob"))
    assert errors(decision) == {"alice": Errors.DUPLICATE_RESOURCE, "bob": Errors.NONE}
    [made] = decision.records
    assert isinstance(made, Versioned) and made.record.name == "bob"


def test_an_old_metadata_version_has_no_credentials() -> None:
    decision = altered(a_context(level=10), upsertion())  # 3.5-IV1
    assert errors(decision) == {"alice": Errors.UNSUPPORTED_VERSION}
    assert errors(altered(a_context(level=11), upsertion())) == {"alice": Errors.NONE}


def test_described_are_mechanisms_and_iterations() -> None:
    context = a_context()
    applied(context, altered(context, upsertion(), upsertion("bob", 2, iterations=8192)))
    everyone = described(context, None)
    found = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in everyone.response.results
    }
    assert found == {"alice": [(1, 4096)], "bob": [(2, 8192)]}
    users = [UserName(name=name) for name in ("alice", "carol", "bob", "bob")]
    some = described(context, users)
    assert {
        each.user: (each.error_code, each.error_message, len(each.credential_infos)) for each in some.response.results
    } == {
        "alice": (Errors.NONE, None, 1),
        "carol": (
            Errors.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: carol",
            0,
        ),
        "bob": (
            Errors.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
            0,
        ),
    }
    assert (some.response.error_code, some.response.error_message) == (Errors.NONE, None)


def test_scram_credentials_need_the_rights_to_alter_and_to_describe() -> None:
    context = a_context(has_authorizer=True)
    decision = altered(context, upsertion())
    assert errors(decision) == {"alice": Errors.CLUSTER_AUTHORIZATION_FAILED}
    assert not decision.records
    answer = described(context, None).response
    assert answer.error_code == Errors.CLUSTER_AUTHORIZATION_FAILED and not answer.results
