"""Delegation tokens in znodes, as DelegationTokenManagerZk keeps them."""

import hashlib
import hmac
import json
from itertools import count
from typing import Any

import pytest

import kcore
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore.controller.zk.events import ExpireTokens, RequestEvent
from kcore.errors import TableError
from kcore.metadata.principal import KafkaPrincipal, Token
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.metadata.zookeeper.znode_tokens import CHANGES, PERSISTENT_PATHS, decode_token, encode_token, token_path
from kcore.node.tokens import MOST_RENEWERS, OfTokens
from kcore.node.zk.admin import tokens
from kcore.node.zk.requester import Requester
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

KEY, DAY = "the cluster's key", 24 * 3600 * 1000
ALICE, BOB = KafkaPrincipal("al ice"), KafkaPrincipal("bob")
IDS = count(1)
FIRST_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # That a cluster of the tests draws.


def secured(**config: Any) -> Cluster:
    cluster = small([1], **{"delegation_token_secret_key": KEY, **config})
    for path in PERSISTENT_PATHS:
        cluster.tree.create(path, parents=True)
    return cluster


def ask(
    cluster: Cluster,
    request: OfTokens,
    who: KafkaPrincipal = ALICE,
    now_ms: int = 1000,
    *,
    sees_all: bool = False,
    version: int = 3,
) -> Any:
    request_id = next(IDS)
    version = 2 if isinstance(request, RenewDelegationTokenRequest | ExpireDelegationTokenRequest) else version
    requester = Requester(who, wall_ms=now_ms, may_describe_token=lambda token_id, owner: sees_all)
    cluster.run(RequestEvent(request_id, request, version, requester))
    response = cluster.answers[request_id]
    assert kcore.encode(response, version)
    assert type(response).__name__ == type(request).__name__.replace("Request", "Response")
    return response


def create(cluster: Cluster, max_lifetime_ms: int = -1, owner: str | None = None) -> Any:
    return ask(
        cluster,
        CreateDelegationTokenRequest(
            owner_principal_type=owner and "User",
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type="User", principal_name="bob")],
            max_lifetime_ms=max_lifetime_ms,
        ),
    )


def notes(cluster: Cluster) -> list[bytes]:
    return [cluster.tree.nodes[f"{CHANGES}/{each}"].data for each in sorted(cluster.tree.children[CHANGES])]


def test_a_token_is_written_without_its_secret_with_a_notification() -> None:
    cluster = secured()
    made = create(cluster)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "al ice", "al ice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        1000,
        1000 + DAY,
        1000 + 7 * DAY,
    )
    assert made.hmac == hmac.digest(KEY.encode(), made.token_id.encode(), hashlib.sha512)
    node = cluster.tree.nodes[token_path(made.token_id)]
    assert json.loads(node.data) == {
        "version": 3,
        "owner": "User%3Aal%20ice",
        "tokenRequester": "User%3Aal%20ice",
        "renewers": ["User%3Abob"],
        "issueTimestamp": 1000,
        "maxTimestamp": 1000 + 7 * DAY,
        "expiryTimestamp": 1000 + DAY,
        "tokenId": made.token_id,
    }
    assert notes(cluster) == [made.token_id.encode()]
    assert repr(made.hmac)[2:-1] not in repr(made) and KEY not in repr(cluster.config)


def test_a_token_for_another_names_who_asked() -> None:
    made = create(secured(), 5000, "carol")
    assert (made.principal_name, made.token_requester_principal_name) == ("carol", "al ice")
    assert made.max_timestamp_ms == made.expiry_timestamp_ms == 6000


def test_owner_and_renewers_move_the_end_and_nobody_else() -> None:
    cluster = secured()
    made = create(cluster)
    renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=9 * DAY)
    assert ask(cluster, renew, BOB, 2000).expiry_timestamp_ms == made.max_timestamp_ms
    assert (
        ask(cluster, RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)).expiry_timestamp_ms == 1000 + DAY
    )
    stranger = ask(cluster, renew, KafkaPrincipal("mallory"))
    assert (stranger.error_code, stranger.expiry_timestamp_ms) == (Errors.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    unknown = ask(cluster, RenewDelegationTokenRequest(hmac=b"x" * 64, renew_period_ms=1))
    assert unknown.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND
    earlier = ask(cluster, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=10), BOB, 2000)
    assert earlier.expiry_timestamp_ms == 2010
    assert ask(cluster, renew, BOB, 2011).error_code == Errors.DELEGATION_TOKEN_EXPIRED
    assert len(notes(cluster)) == 4
    gone = ask(cluster, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), ALICE, 2011)
    assert (gone.error_code, gone.expiry_timestamp_ms) == (0, 2011)
    assert token_path(made.token_id) not in cluster.tree.nodes


def test_tokens_are_shown_to_owners_renewers_and_who_may_see_them() -> None:
    cluster = secured()
    made = create(cluster)
    every = DescribeDelegationTokenRequest(owners=None)
    for who, sees_all in ((ALICE, False), (BOB, False), (KafkaPrincipal("auditor"), True)):
        [token] = ask(cluster, every, who, sees_all=sees_all).tokens
        assert (token.token_id, token.hmac) == (made.token_id, made.hmac)
    assert ask(cluster, every, KafkaPrincipal("mallory")).tokens == []
    assert ask(cluster, DescribeDelegationTokenRequest(owners=[])).tokens == []
    others = [DescribeDelegationTokenOwner(principal_type="User", principal_name="carol")]
    assert ask(cluster, DescribeDelegationTokenRequest(owners=others)).tokens == []


def test_who_asked_for_a_token_of_another_sees_it_and_does_not_renew_it() -> None:
    cluster = secured()
    made = create(cluster, owner="carol")
    [token] = ask(cluster, DescribeDelegationTokenRequest(owners=None), ALICE).tokens
    assert (token.token_id, token.principal_name, token.token_requester_principal_name) == (
        made.token_id,
        "carol",
        "al ice",
    )
    asked_by_alice = [DescribeDelegationTokenOwner(principal_type="User", principal_name="al ice")]
    assert ask(cluster, DescribeDelegationTokenRequest(owners=asked_by_alice), KafkaPrincipal("carol")).tokens
    for request in (
        RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1),
        ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1),
    ):
        assert ask(cluster, request, ALICE).error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH


def test_a_refusal_says_whose_the_token_was_to_be_and_who_asked() -> None:
    cluster = secured(delegation_token_secret_key=None)
    refused = create(cluster, owner="carol")
    assert refused.error_code == Errors.DELEGATION_TOKEN_AUTH_DISABLED
    assert (refused.principal_name, refused.token_requester_principal_name) == ("carol", "al ice")
    assert (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms) == (-1, -1, -1)


def test_an_owner_has_a_type() -> None:
    made = ask(secured(), CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name="carol"))
    assert made.error_code == Errors.INVALID_PRINCIPAL_TYPE


def test_who_had_a_token_made_for_another_sees_it_and_does_not_renew_it() -> None:
    """KIP-373. DescribeDelegationToken for the requester's tokens finds the token, too."""
    cluster = secured()
    made = create(cluster, owner="carol")
    carol = KafkaPrincipal("carol")
    for owner in (None, ALICE, carol, BOB):
        owners = owner and [DescribeDelegationTokenOwner(principal_type="User", principal_name=owner.name)]
        for who in (ALICE, carol, BOB):
            [token] = ask(cluster, DescribeDelegationTokenRequest(owners=owners), who).tokens
            assert (token.token_id, token.token_requester_principal_name) == (made.token_id, ALICE.name)
    renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)
    assert ask(cluster, renew, ALICE).error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    assert ask(cluster, renew, carol).error_code == Errors.NONE


def test_expired_tokens_go() -> None:
    cluster = secured()
    short, long = create(cluster, 5000), create(cluster)
    cluster.run(ExpireTokens(6000))
    assert token_path(short.token_id) in cluster.tree.nodes, "its last millisecond"
    cluster.run(ExpireTokens(6001))
    assert token_path(short.token_id) not in cluster.tree.nodes and token_path(long.token_id) in cluster.tree.nodes
    assert notes(cluster)[-1] == short.token_id.encode()


def test_without_a_key_there_are_no_tokens() -> None:
    assert create(secured(delegation_token_secret_key=None)).error_code == Errors.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(Cluster(delegation_token_secret_key=KEY)).error_code == Errors.NOT_CONTROLLER
    cluster = secured(delegation_token_secret_key=None)
    old = Token("old", ALICE, ALICE, (), 1, 2, 2)
    cluster.tree.create(token_path("old"), encode_token(old))
    cluster.run(ExpireTokens(10**9))
    assert token_path("old") in cluster.tree.nodes, "others may know the key"


def test_the_requester_is_reported_since_version_3() -> None:
    cluster = secured()
    request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, owner_principal_name="")
    assert ask(cluster, request, version=2).token_requester_principal_name == ""
    [token] = ask(cluster, DescribeDelegationTokenRequest(owners=None), version=2).tokens
    assert (token.principal_name, token.token_requester_principal_name) == (ALICE.name, "")


def test_a_token_that_could_not_be_written_is_none() -> None:
    cluster = secured()
    cluster.tree.create(token_path(FIRST_ID), b"another's")
    made = create(cluster)
    assert (made.error_code, made.hmac) == (Errors.UNKNOWN_SERVER_ERROR, b"")
    assert cluster.tree.nodes[token_path(FIRST_ID)].data == b"another's"


@pytest.mark.parametrize("kind", ["Group", "", None])
def test_owners_are_users(kind: str | None) -> None:
    request = CreateDelegationTokenRequest(renewers=[], owner_principal_type=kind, owner_principal_name="g")
    assert ask(secured(), request).error_code == Errors.INVALID_PRINCIPAL_TYPE


def test_a_period_of_zero_is_over_at_once_and_removes_nothing() -> None:
    cluster = secured()
    made = create(cluster)
    for request in (
        RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=0),
        ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=0),
    ):
        assert ask(cluster, request, now_ms=2000).expiry_timestamp_ms == 2000
        assert token_path(made.token_id) in cluster.tree.nodes


def test_all_fields_of_a_token_are_described() -> None:
    cluster = secured()
    made = create(cluster, 5000, "carol")
    [token] = ask(cluster, DescribeDelegationTokenRequest(owners=None)).tokens
    assert (
        (token.principal_type, token.principal_name) == (made.principal_type, made.principal_name) == ("User", "carol")
    )
    asked = token.token_requester_principal_type, token.token_requester_principal_name
    assert asked == (made.token_requester_principal_type, made.token_requester_principal_name) == ("User", "al ice")
    assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (1000, 6000, 6000)
    assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "bob")]


@pytest.mark.parametrize("kind", [RenewDelegationTokenRequest, ExpireDelegationTokenRequest])
def test_a_token_that_is_removed_meanwhile_is_not_made_again(kind: Any) -> None:
    cluster = secured()
    made = create(cluster)

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.tree.delete(token_path(made.token_id))

    cluster.before = before
    answer = ask(cluster, kind(hmac=made.hmac))
    assert answer.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND
    assert token_path(made.token_id) not in cluster.tree.nodes


def test_renewers_are_users() -> None:
    renewers = [CreatableRenewers(principal_type=kind, principal_name="g") for kind in ("User", "Group")]
    made = ask(secured(), CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1))
    assert made.error_code == Errors.INVALID_PRINCIPAL_TYPE


def test_znodes_are_read_as_they_are_written() -> None:
    token = Token("id", ALICE, BOB, (BOB,), 1, 2, 3)
    assert decode_token("/x", encode_token(token)) == token
    data = encode_token(token)
    old = json.loads(data.replace(b'"version":3', b'"version":2'))
    del old["tokenRequester"]
    assert decode_token("/x", json.dumps(old).encode()) == token._replace(requester=ALICE), "it had none"
    changed = ((b'"version":3', b'"version":4'), (b'"version":3', b'"version":0'), (b"User%3Abob", b"bob"))
    times = ((b'"maxTimestamp":2', b'"maxTimestamp":9223372036854775808'), (b'"maxTimestamp":2', b'"maxTimestamp":1.5'))
    for bad in (b"{}", b"[]", *(data.replace(*each) for each in (*changed, *times))):
        with pytest.raises(TableError):
            decode_token("/x", bad)
    cluster = secured()
    cluster.tree.create(token_path("bad"), b"no JSON")
    assert ask(cluster, DescribeDelegationTokenRequest(owners=None)).tokens == []


# Requests that users without rights may send.


def test_a_token_has_so_many_renewers_and_an_owner_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    cluster = secured()
    many = [CreatableRenewers(principal_type="User", principal_name="bob")] * (MOST_RENEWERS + 1)
    given = {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1}
    assert ask(cluster, CreateDelegationTokenRequest(renewers=many, **given)).error_code == Errors.POLICY_VIOLATION
    assert not notes(cluster)
    assert [create(cluster).error_code for _ in range(3)] == [0, 0, Errors.POLICY_VIOLATION]
    assert ask(cluster, CreateDelegationTokenRequest(renewers=[], **given), BOB).error_code == Errors.NONE


def test_each_change_of_a_token_counts_for_the_quota_on_mutations() -> None:
    cluster = secured()
    data = znodes.encode_config({"controller_mutation_rate": "0.1"})
    cluster.tree.create(f"{znodes.CONFIG}/users/al%20ice", data, parents=True)
    secrets = [create(cluster).hmac for _ in range(2)]
    before = len(notes(cluster))
    for refused in (
        create(cluster),
        ask(cluster, RenewDelegationTokenRequest(hmac=secrets[0], renew_period_ms=-1)),
        ask(cluster, ExpireDelegationTokenRequest(hmac=secrets[0], expiry_time_period_ms=-1)),
    ):
        assert refused.error_code == Errors.THROTTLING_QUOTA_EXCEEDED and refused.throttle_time_ms > 0
    assert len(notes(cluster)) == before
