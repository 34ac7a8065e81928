"""SCRAM credentials, beyond what stories of a real controller show."""

import pytest

from controller.kraft.contexts import a_context, applied
from kcore.controller.kraft.admin.scram import on_alter_user_scram_credentials, on_describe_user_scram_credentials
from kcore.controller.kraft.context import ControllerContext, RequestInfo
from kcore.controller.kraft.decision import Decision
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
    return on_alter_user_scram_credentials(context, request, INFO)


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
        ({"mechanism": 0}, Errors.UNSUPPORTED_SASL_MECHANISM),
        ({"name": ""}, Errors.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_credentials_that_are_refused(values: dict[str, object], error: Errors) -> None:
    decision = altered(a_context(), upsertion(**values))
    assert [*errors(decision).values()] == [error]
    assert len(decision.records) == (error == Errors.NONE)
    assert all("swordfish" not in (each.error_message or "") for each in decision.response.results)


def test_an_old_metadata_version_has_no_credentials() -> None:
    decision = altered(a_context(level=10), upsertion())  # 3.5-IV1
    assert errors(decision) == {"alice": Errors.UNSUPPORTED_VERSION}
    assert errors(altered(a_context(level=11), upsertion())) == {"alice": Errors.NONE}


def test_described_are_mechanisms_and_iterations() -> None:
    context = a_context()
    applied(context, altered(context, upsertion(), upsertion("bob", 2, iterations=8192)))
    everyone = on_describe_user_scram_credentials(context, DescribeUserScramCredentialsRequest(users=None), INFO)
    found = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in everyone.response.results
    }
    assert found == {"alice": [(1, 4096)], "bob": [(2, 8192)]}
    users = [UserName(name=name) for name in ("alice", "carol", "bob", "bob")]
    some = on_describe_user_scram_credentials(context, DescribeUserScramCredentialsRequest(users=users), INFO)
    assert errors(some) == {
        "alice": Errors.NONE,
        "carol": Errors.RESOURCE_NOT_FOUND,
        "bob": Errors.DUPLICATE_RESOURCE,
    }


def test_who_may_not_alter_changes_nothing() -> None:
    decision = altered(a_context(has_authorizer=True), upsertion())
    assert errors(decision) == {"alice": Errors.CLUSTER_AUTHORIZATION_FAILED}
    assert not decision.records
