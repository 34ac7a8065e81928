"""`repr`, whose text appears in logs and tracebacks, shows no secrets."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kcore.schema.delegation_tokens import (
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.envelope import EnvelopeRequest, EnvelopeResponse
from kcore.schema.index import MESSAGES
from kcore.schema.kinds import FieldType, Kind
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.schema.sasl import SaslAuthenticateRequest
from kcore.schema.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kcore.schema.structure import Field, Message, Struct
from kraft_configs import controller_config

SECRET = b"swordfish"
# Fields that may hold a secret: bytes, records, and texts with these names.
NAMES = re.compile(r"password|secret|hmac|salt|credential|key|value")
# The exceptions. Hide a new field with such a name, or say here why it holds no secret.
NO_SECRETS = {
    **dict.fromkeys(
        [
            *("JoinGroupRequestProtocol.metadata", "JoinGroupResponseMember.metadata", "SyncGroupResponse.assignment"),
            *("SyncGroupRequestAssignment.assignment", "DescribedGroupMember.member_metadata"),
            *("DescribedGroupMember.member_assignment", "ConsumerProtocolSubscription.user_data"),
            "ConsumerProtocolAssignment.user_data",
        ],
        "what the members of a group tell each other about partitions",
    ),
    **dict.fromkeys(
        ["FindCoordinatorRequest.key", "FindCoordinatorRequest.coordinator_keys", "Coordinator.key"],
        "the name of a group or a transaction",
    ),
    **dict.fromkeys(["ValueData.key", "OpData.key", "ClientQuotaRecord.key"], "the name of a quota"),
    **dict.fromkeys(
        ["CreatableTopicConfig.value", "CreatableTopicConfigs.value"], "no setting of a topic is a password"
    ),
    **dict.fromkeys(
        ["DescribeConfigsResourceResult.value", "DescribeConfigsSynonym.value"], "null where it is sensitive"
    ),
    **dict.fromkeys(["KeyValue.key", "KeyValue.value"], "tags of a member of a streams group"),
    "DescribeConfigsResource.configuration_keys": "names of settings",
    "PushTelemetryRequest.metrics": "what a client measures",
    "EnvelopeRequest.request_principal": "who asks",
    "EnvelopeRequest.client_host_address": "from where",
}


def may_be_secret(owner: type[Struct], field: Field) -> bool:
    kind = (field.type.element or field.type).kind
    by_type = kind in (Kind.BYTES, Kind.RECORDS) or (kind is Kind.STRING and NAMES.search(field.name) is not None)
    return by_type and f"{owner.__name__}.{field.name}" not in NO_SECRETS


def planted(kind: type[Struct]) -> Struct:
    """An instance with a secret in every field that may hold one, at any depth."""
    return kind(**{each.name: value_of(each.type, is_secret=may_be_secret(kind, each)) for each in kind.__fields__})


def value_of(field: FieldType, *, is_secret: bool) -> Any:
    if field.element is not None:
        return [value_of(field.element, is_secret=is_secret)]
    if field.struct is not None:
        return planted(field.struct)
    if not is_secret:
        return field.default()
    return SECRET.decode() if field.kind is Kind.STRING else SECRET


def structs_of(kind: type[Struct]) -> Iterator[type[Struct]]:
    yield kind
    for each in kind.__fields__:
        inner = (each.type.element or each.type).struct
        if inner is not None:
            yield from structs_of(inner)


def test_no_message_shows_a_secret() -> None:
    assert [name for name, message in MESSAGES.items() if "swordfish" in repr(planted(message))] == []


def test_every_exception_is_a_field_that_is_shown() -> None:
    found = {each.__name__: each for message in MESSAGES.values() for each in structs_of(message)}
    for owner, _, name in (each.partition(".") for each in NO_SECRETS):
        [field] = [each for each in found[owner].__fields__ if each.name == name]
        assert not field.options.secret, f"{owner}.{name} is hidden"


def test_a_secret_that_is_not_hidden_is_found() -> None:
    class Careless(Message, versions="0", flexible="none"):
        """Its password is an ordinary field."""

        password: str

    assert "swordfish" in repr(planted(Careless))


@pytest.mark.parametrize(
    "holder",
    [
        AlterUserScramCredentialsRequest(
            upsertions=[ScramCredentialUpsertion(name="a", salt=SECRET, salted_password=SECRET)]
        ),
        UserScramCredentialRecord(name="a", salt=SECRET, stored_key=SECRET, server_key=SECRET),
        CreateDelegationTokenResponse(token_id="a", hmac=SECRET),
        RenewDelegationTokenRequest(hmac=SECRET),
        ExpireDelegationTokenRequest(hmac=SECRET),
        DescribedDelegationToken(token_id="a", hmac=SECRET),
        SaslAuthenticateRequest(auth_bytes=SECRET),
        EnvelopeRequest(request_data=SECRET),
        EnvelopeResponse(response_data=SECRET),
        controller_config(
            1, "c", delegation_token_secret_key="swordfish", static_configs={"ssl.key.password": "swordfish"}
        ),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_secrets_are_hidden(holder: object) -> None:
    assert "swordfish" not in repr(holder)


def test_what_is_no_secret_is_shown() -> None:
    shown = repr(ScramCredentialUpsertion(name="alice", mechanism=1, iterations=4096, salt=SECRET))
    assert "name='alice'" in shown
    assert "iterations=4096" in shown
    assert "salt=[hidden]" in shown
