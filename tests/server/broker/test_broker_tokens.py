"""Delegation tokens at brokers of a KRaft cluster: creation, description, authentication."""

from pathlib import Path
from typing import Any

import pytest

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal
from kcore.net.connect import connect
from kcore.net.request_context import ClientSession
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.metadata_records_security import DelegationTokenRecord
from kcore.server.broker.token_requests import describe_tokens, refusal_of
from net.authority import Authority
from net.loops import story, until
from net.token_client import show_token
from server.broker.test_broker_listeners import NO_TOPIC, creation, first_error
from server.secure_cluster import secure_cluster


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@story
async def test_delegation_tokens_are_made_and_shown_at_brokers(tmp_path: Path, authority: Authority) -> None:
    asked, described = CreateDelegationTokenRequest(max_lifetime_ms=-1), DescribeDelegationTokenRequest(owners=None)
    async with secure_cluster(tmp_path, authority) as cluster:
        async with await connect("127.0.0.1", cluster.brokers[1].listening.ports["OPEN"]) as stranger:
            for request in (asked, described):
                assert first_error(await stranger.send(request)) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        made = await cluster.ask("alice", asked)
        assert (made.error_code, made.principal_name) == (0, "alice")
        await until(lambda: made.token_id in cluster.brokers[2].link.loader.image.tokens)
        answer = await cluster.ask("alice", described, broker_id=2)
        assert [(each.token_id, each.hmac) for each in answer.tokens] == [(made.token_id, made.hmac)]
        security = cluster.security()
        async with await connect(
            "127.0.0.1", cluster.brokers[2].listening.ports["SECURE"], security=security
        ) as connection:
            await show_token(connection, made.token_id, made.hmac, "SCRAM-SHA-512")
            for request in (asked, described):
                assert first_error(await connection.send(request)) is Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            answer = await connection.send(creation())
            assert answer.topics[0].error_code == NO_TOPIC, "it is alice"


ALICE, CAROL = KafkaPrincipal("alice"), KafkaPrincipal("carol")
TOKEN = DelegationTokenRecord(
    owner="User:carol",
    requester="User:alice",
    renewers=["User:bob"],
    issue_timestamp=1,
    max_timestamp=3,
    expiration_timestamp=2,
    token_id="id",
)


@pytest.mark.parametrize(
    ("protocol", "principal", "is_token", "may"),
    [
        ("PLAINTEXT", ANONYMOUS, False, False),
        ("SSL", ANONYMOUS, False, False),
        ("SSL", ALICE, False, True),
        ("SASL_PLAINTEXT", ALICE, False, True),
        ("SASL_SSL", ALICE, False, True),
        ("SASL_SSL", ALICE, True, False),
    ],
)
def test_where_tokens_may_be_asked_for(protocol: str, principal: KafkaPrincipal, is_token: bool, may: bool) -> None:
    """KafkaApis.allowTokenRequests; the refusal is in the form of each response."""
    session = ClientSession("L", "10.0.0.1", protocol)
    session.authenticated(principal, is_token=is_token)
    for kind in (CreateDelegationTokenRequest, RenewDelegationTokenRequest, ExpireDelegationTokenRequest):
        found: Any = refusal_of(kind(), 2, session)
        assert (found is None) is may
        error = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert may or (first_error(found), found.expiry_timestamp_ms) == (error, -1)
    assert (refusal_of(DescribeDelegationTokenRequest(), 2, session) is None) is may


@pytest.mark.parametrize(
    ("owner", "answer"),
    [(("User", "carol"), "carol"), (("User", ""), "alice"), (("User", None), "alice"), ((None, "x"), "alice")],
)
def test_a_refused_token_names_requester_and_owner(owner: tuple[str | None, str | None], answer: str) -> None:
    session = ClientSession("L", "10.0.0.1")
    session.authenticated(ALICE)
    asked = CreateDelegationTokenRequest(owner_principal_type=owner[0], owner_principal_name=owner[1])
    for version, requester in ((2, ("", "")), (3, ("User", "alice"))):
        found: Any = refusal_of(asked, version, session)
        assert (found.principal_type, found.principal_name) == ("User", answer)
        assert (found.token_requester_principal_type, found.token_requester_principal_name) == requester
        assert (found.issue_timestamp_ms, found.max_timestamp_ms) == (-1, -1)


@pytest.mark.parametrize("owners", [None, ["alice"], ["bob"], ["carol", "x"], ["x"], []])
@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory", "auditor"])
def test_a_token_is_described_to_owner_renewers_and_requester(name: str, owners: list[str] | None) -> None:
    """Clients with the right may also describe the token (DelegationTokenManager.filterToken)."""
    image = ClusterImage()
    image.apply(TOKEN)
    named = owners and [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    request = DescribeDelegationTokenRequest(owners=[] if owners == [] else named)
    asked: list[tuple[str, str]] = []

    def may_describe(token_id: str, owner: str) -> bool:
        asked.append((token_id, owner))
        return name == "auditor"

    found = describe_tokens(request, 3, KafkaPrincipal(name), image, "a secret", may_describe).tokens
    is_wanted = owners is None or bool({*owners} & {"alice", "bob", "carol"})
    assert bool(found) is (is_wanted and name != "mallory")
    assert {*asked} <= {("id", "User:carol")}
    for each in found:
        assert (each.principal_name, each.token_requester_principal_name) == ("carol", "alice")
        assert [renewer.principal_name for renewer in each.renewers] == ["bob"]
        assert (each.issue_timestamp, each.expiry_timestamp, each.max_timestamp) == (1, 2, 3)
    for each in describe_tokens(request, 2, KafkaPrincipal(name), image, "a secret", may_describe).tokens:
        assert (each.principal_type, each.token_requester_principal_name) == ("User", ""), "known since version 3"
    error = describe_tokens(request, 3, CAROL, image, None, may_describe).error_code
    assert error == Errors.DELEGATION_TOKEN_AUTH_DISABLED
