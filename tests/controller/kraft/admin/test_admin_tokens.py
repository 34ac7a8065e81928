"""Delegation tokens, beyond what stories of a real controller show: their times, renewers and expiry."""

import hmac
from dataclasses import replace

import pytest

from controller.kraft.contexts import a_context, applied
from kcore.controller.kraft.admin import tokens
from kcore.controller.kraft.admin.tokens import (
    expire_tokens,
    on_create_delegation_token,
    on_describe_delegation_token,
    on_expire_delegation_token,
    on_renew_delegation_token,
)
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.departures import UNBOUNDED_TOKENS
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.periodic import MOST_EXPIRED_TOKENS as MOST_EXPIRED
from kcore.controller.kraft.tasks import TOKENS, all_tasks
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal
from kcore.node.kraft.image_indexes import TokenIndex
from kcore.node.tokens import MOST_RENEWER_BYTES, MOST_RENEWERS
from kcore.protocol_errors import Errors
from kcore.schema.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from kcore.schema.metadata_records_security import AccessControlEntryRecord
from kcore.schema.metadata_records_settings import ClientQuotaRecord, EntityData
from kcore.types import Uuid

NOW = 1_000_000
DAY = 24 * 3600 * 1000


def asked_by(name: str = "alice", wall_ms: int = NOW, **values: object) -> RequestInfo:
    return RequestInfo(3, 0, wall_ms, KafkaPrincipal(name), is_forwarded=True)._replace(**values)


def a_world(**settings: object) -> ControllerContext:
    return a_context(**{"delegation_token_secret_key": "swordfish", **settings})


def created(context: ControllerContext, info: RequestInfo, **values: object) -> Decision:
    given = {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": -1}
    return on_create_delegation_token(context, CreateDelegationTokenRequest(**{**given, **values}), info)


def a_token(context: ControllerContext, info: RequestInfo | None = None, **values: object) -> bytes:
    decision = created(context, info or asked_by(), **values)
    assert decision.response.error_code == Errors.NONE
    applied(context, decision)
    secret: bytes = decision.response.hmac
    return secret


def renewed(context: ControllerContext, secret: bytes, info: RequestInfo, period_ms: int = -1) -> Decision:
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
    return on_renew_delegation_token(context, request, info)


def ended(context: ControllerContext, secret: bytes, info: RequestInfo, period_ms: int = -1) -> Decision:
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    return on_expire_delegation_token(context, request, info)


def test_the_secret_follows_from_the_id() -> None:
    response = created(a_world(), asked_by()).response
    assert response.hmac == hmac.digest(b"swordfish", response.token_id.encode(), "sha512")
    assert response.issue_timestamp_ms == NOW
    assert response.expiry_timestamp_ms == NOW + DAY
    assert response.max_timestamp_ms == NOW + 7 * DAY


def test_times_are_bounded() -> None:
    short = created(a_world(), asked_by(), max_lifetime_ms=5).response
    assert (short.expiry_timestamp_ms, short.max_timestamp_ms) == (NOW + 5, NOW + 5)
    late = created(a_world(), asked_by(wall_ms=(1 << 63) - 2)).response
    assert late.max_timestamp_ms == (1 << 63) - 1


@pytest.mark.parametrize(
    ("info", "settings", "error"),
    [
        (asked_by(is_forwarded=False), {}, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (asked_by(is_token_authenticated=True), {}, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (asked_by(is_forwarded=False, security_protocol="SASL_PLAINTEXT"), {}, Errors.NONE),
        (asked_by(is_forwarded=False, security_protocol="SSL"), {}, Errors.NONE),
        (asked_by("ANONYMOUS", security_protocol="SSL"), {}, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (asked_by(), {"delegation_token_secret_key": None}, Errors.DELEGATION_TOKEN_AUTH_DISABLED),
        (asked_by(), {"level": 13}, Errors.UNSUPPORTED_VERSION),  # 3.6-IV1
        (asked_by(), {"level": 14}, Errors.NONE),
    ],
)
def test_where_there_are_no_tokens(info: RequestInfo, settings: dict[str, object], error: Errors) -> None:
    context = a_world(**settings)
    assert created(context, info).response.error_code == error
    if error != Errors.NONE:
        assert not created(context, info).records
        assert renewed(context, b"", info).response.error_code == error
        assert ended(context, b"", info).response.error_code == error


def test_a_token_for_another_needs_create_tokens() -> None:
    context = a_world(has_authorizer=True)
    for_bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    assert created(context, asked_by(), **for_bob).response.error_code == Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    allowed = AccessControlEntryRecord(
        id=Uuid(b"a" * 16),
        resource_type=7,
        resource_name="User:bob",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=13,
        permission_type=3,
    )
    context.image.apply(allowed)
    secret = a_token(context, **for_bob)
    (token,) = context.image.tokens.values()
    assert (token.owner, token.requester) == ("User:bob", "User:alice")
    assert renewed(context, secret, asked_by("alice")).response.error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renewed(context, secret, asked_by("bob")).response.error_code == Errors.NONE


@pytest.mark.parametrize(
    "owner",
    [
        {"owner_principal_type": "User", "owner_principal_name": "alice"},
        {"owner_principal_type": "User", "owner_principal_name": ""},
        {"owner_principal_type": "User"},
        {"owner_principal_name": ""},
        {},
    ],
)
def test_a_token_for_oneself_needs_no_right_and_is_written_with_its_times(owner: dict[str, str]) -> None:
    context = a_world(has_authorizer=True)
    a_token(context, max_lifetime_ms=2 * DAY, **owner)
    [token] = context.image.tokens.values()
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", [])
    times = token.issue_timestamp, token.expiration_timestamp, token.max_timestamp
    assert times == (NOW, NOW + DAY, NOW + 2 * DAY)


def test_an_owner_without_a_type_is_refused() -> None:
    decision = created(a_world(), asked_by(), owner_principal_name="bob")
    assert decision.response.error_code == Errors.INVALID_PRINCIPAL_TYPE
    assert not decision.records


def test_owner_and_renewers_may_renew_up_to_the_greatest_age() -> None:
    context = a_world()
    secret = a_token(context, renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    assert renewed(context, secret, asked_by("eve")).response.error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    later = NOW + DAY - 1
    decision = renewed(context, secret, asked_by("bob", later))
    assert decision.response.expiry_timestamp_ms == later + DAY
    applied(context, decision)
    for day in range(2, 7):
        applied(context, renewed(context, secret, asked_by("alice", NOW + day * DAY - day)))
    last = renewed(context, secret, asked_by("alice", NOW + 7 * DAY - 10))
    assert last.response.expiry_timestamp_ms == NOW + 7 * DAY
    applied(context, last)
    over = renewed(context, secret, asked_by("alice", NOW + 7 * DAY + 1))
    assert over.response.error_code == Errors.DELEGATION_TOKEN_EXPIRED
    assert not over.records


def test_a_renewal_is_as_long_as_was_asked_for_and_changes_nothing_else() -> None:
    context = a_world()
    secret = a_token(context, renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    [before] = context.image.tokens.values()
    for asked_ms, period_ms in ((5, 5), (0, DAY), (-1, DAY), (2 * DAY, DAY)):
        decision = renewed(context, secret, asked_by("bob", NOW + 1), asked_ms)
        assert decision.response.expiry_timestamp_ms == NOW + 1 + period_ms
        applied(context, decision)
        [after] = context.image.tokens.values()
        changed = {name for name in type(after).__slots__ if getattr(after, name) != getattr(before, name)}
        assert changed == {"expiration_timestamp"} and after.expiration_timestamp == NOW + 1 + period_ms


def test_a_token_is_never_kept_beyond_its_greatest_age() -> None:
    context = a_world()
    secret = a_token(context, max_lifetime_ms=DAY + 5)
    for way in (renewed, ended):
        assert way(context, secret, asked_by(wall_ms=NOW + 10), 9 * DAY).response.expiry_timestamp_ms == NOW + DAY + 5


def test_nobody_else_ends_a_token() -> None:
    context = a_world()
    secret = a_token(context, renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    for period_ms in (-1, 10):
        refused = ended(context, secret, asked_by("eve"), period_ms)
        assert refused.response.error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH and not refused.records
        for name in ("alice", "bob"):
            assert ended(context, secret, asked_by(name), period_ms).response.error_code == Errors.NONE


def test_renewers_are_users() -> None:
    renewers = [CreatableRenewers(principal_type=kind, principal_name="g") for kind in ("User", "Group")]
    refused = created(a_world(), asked_by(), renewers=renewers)
    assert refused.response.error_code == Errors.INVALID_PRINCIPAL_TYPE and not refused.records


@pytest.mark.parametrize(("version", "requester"), [(2, ("", "")), (3, ("User", "alice"))])
def test_the_requester_is_reported_since_version_3(version: int, requester: tuple[str, str]) -> None:
    for settings in ({}, {"delegation_token_secret_key": None}):
        info = asked_by(version=version)
        made = created(a_world(**settings), info, owner_principal_type="User", owner_principal_name="bob").response
        assert (made.principal_type, made.principal_name) == ("User", "bob")
        assert (made.token_requester_principal_type, made.token_requester_principal_name) == requester


def test_a_refusal_has_the_times_that_kafkas_has() -> None:
    """-1 from ControllerApis, 0 from the controller."""
    nowhere, unknown = asked_by(is_forwarded=False), asked_by()
    for info, time_ms in ((nowhere, -1), (unknown, 0)):
        context = a_world(**({} if info is nowhere else {"delegation_token_secret_key": None}))
        answer = created(context, info).response
        assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (time_ms,) * 3
        for way in (renewed, ended):
            assert way(context, b"", info).response.expiry_timestamp_ms == time_ms


def test_an_id_that_is_taken_is_not_given_again() -> None:
    context, taken, free = a_world(), Uuid(b"a" * 16), Uuid(b"f" * 16)
    fresh = iter([taken, taken, free])
    context.new_uuid = lambda: next(fresh)
    a_token(context)
    assert created(context, asked_by()).response.token_id == str(free)


def test_a_token_ends_now_or_later_or_not_at_all() -> None:
    context = a_world()
    secret = a_token(context)
    assert ended(context, b"wrong", asked_by()).response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND
    later = ended(context, secret, asked_by(), 1_000)
    assert later.response.expiry_timestamp_ms == NOW + 1_000
    applied(context, later)
    assert (
        ended(context, secret, asked_by(wall_ms=NOW + 1_001), 0).response.error_code == Errors.DELEGATION_TOKEN_EXPIRED
    )
    now = ended(context, secret, asked_by(wall_ms=NOW + 1_001))  # At once: even one whose time is over.
    assert now.response.expiry_timestamp_ms == NOW + 1_001
    applied(context, now)
    assert not context.image.tokens
    assert ended(context, secret, asked_by()).response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND


def test_tokens_that_are_taken_back_are_unknown() -> None:
    context = a_world()
    context.image.keep_journal()
    context.image.begin(0)
    secret = a_token(context)
    assert renewed(context, secret, asked_by()).response.error_code == Errors.NONE
    context.image.revert_to(0)
    assert renewed(context, secret, asked_by()).response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_is_known_whenever_it_was_made_and_forgotten_when_it_is_gone() -> None:
    context = a_world()
    first = a_token(context)
    assert renewed(context, first, asked_by()).response.error_code == Errors.NONE
    second = a_token(context, asked_by("bob"))
    assert renewed(context, second, asked_by("bob")).response.error_code == Errors.NONE
    assert renewed(context, second, asked_by()).response.error_code == Errors.DELEGATION_TOKEN_OWNER_MISMATCH
    applied(context, ended(context, first, asked_by()))
    assert renewed(context, first, asked_by()).response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND
    assert len(context.tokens._ids) == 1


def test_of_another_image_the_tokens_are_others() -> None:
    """Such as that of a snapshot which the controller has loaded."""
    context, other = a_world(), a_world()
    secret = a_token(context)
    a_token(other, asked_by("carol"))
    [record] = other.image.tokens.values()
    record.token_id = "another"
    image = ClusterImage()
    image.apply(record)
    assert context.tokens.token_of(context.image, secret) is not None
    context.image = image
    assert context.tokens.token_of(image, secret) is None
    found = context.tokens.token_of(image, context.tokens.hmac_of("another"))
    assert found is not None and found.owner == "User:carol"


def test_expired_tokens_are_removed_by_the_wall_clock() -> None:
    context = a_world()
    for k in range(MOST_EXPIRED + 5):
        a_token(context, asked_by(f"user-{k % 2}", wall_ms=NOW + (k % 2)))
    context.wall_ahead_ms = NOW
    assert expire_tokens(context, DAY) is None  # At the very millisecond a token still holds.
    first = expire_tokens(context, DAY + 2)
    assert first is not None
    assert len(first.records) == MOST_EXPIRED
    assert not first.is_atomic
    [task] = [each for each in all_tasks(context.config) if each.name == TOKENS]
    assert task.continues_from == len(first.records)  # The rest is due at once.
    applied(context, first)
    rest = expire_tokens(context, DAY + 2)
    assert rest is not None
    applied(context, rest)
    assert not context.image.tokens
    assert expire_tokens(context, DAY + 2) is None


def test_controllers_do_not_describe_tokens() -> None:
    request = DescribeDelegationTokenRequest(owners=None)
    direct = on_describe_delegation_token(a_world(), request, asked_by(is_forwarded=False))
    assert direct.response.error_code == Errors.UNKNOWN_SERVER_ERROR
    assert on_describe_delegation_token(a_world(), request, asked_by()).response is None


def test_the_key_does_not_show() -> None:
    context = a_world()
    assert "swordfish" not in repr(context.config)
    assert "swordfish" not in repr(replace(context.config.node, node_id=2))
    assert "swordfish" not in repr(context.tokens)


# Limits for users without permissions.


def named(count: int, length: int = 3) -> list[CreatableRenewers]:
    return [CreatableRenewers(principal_type="User", principal_name=f"{k}".rjust(length, "r")) for k in range(count)]


@pytest.mark.parametrize(
    ("renewers", "error"),
    [
        (named(MOST_RENEWERS), Errors.NONE),
        (named(MOST_RENEWERS + 1), Errors.POLICY_VIOLATION),
        (named(4, MOST_RENEWER_BYTES // 4), Errors.NONE),
        (named(4, MOST_RENEWER_BYTES // 4 + 1), Errors.POLICY_VIOLATION),
        (
            [CreatableRenewers(principal_type="User", principal_name="\N{EURO SIGN}" * (MOST_RENEWER_BYTES // 2))],
            Errors.POLICY_VIOLATION,
        ),
    ],
)
def test_a_token_has_so_many_renewers_and_so_many_bytes_of_their_names(
    renewers: list[CreatableRenewers], error: Errors
) -> None:
    decision = created(a_world(), asked_by(), renewers=renewers)
    assert decision.response.error_code == error and len(decision.records) == (error == Errors.NONE)
    as_kafka = created(a_world(kafka_way=frozenset({UNBOUNDED_TOKENS})), asked_by(), renewers=renewers)
    assert as_kafka.response.error_code == Errors.NONE


def test_an_owner_has_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed ones make room; those of others do not count, nor is the count lost with another image."""
    monkeypatch.setattr(tokens, "MOST_TOKENS", 3)
    context = a_world()
    a_token(context, asked_by("bob"))
    secrets = [a_token(context) for _ in range(3)]
    assert created(context, asked_by()).response.error_code == Errors.POLICY_VIOLATION
    assert created(context, asked_by("bob")).response.error_code == Errors.NONE
    applied(context, renewed(context, secrets[0], asked_by()))
    assert created(context, asked_by()).response.error_code == Errors.POLICY_VIOLATION
    applied(context, ended(context, secrets[0], asked_by()))
    assert created(context, asked_by()).response.error_code == Errors.NONE
    a_token(context)
    context.tokens = TokenIndex("swordfish")
    assert created(context, asked_by()).response.error_code == Errors.POLICY_VIOLATION


def test_each_change_of_a_token_counts_for_the_quota_on_mutations() -> None:
    context = a_world()
    rate = ClientQuotaRecord(
        entity=[EntityData(entity_type="user", entity_name="alice")], key="controller_mutation_rate", value=0.25
    )
    context.image.apply(rate)
    burst = int(0.25 * context.config.controller_quota_window_num)
    secrets = [a_token(context) for _ in range(burst + 1)]  # The last one overdraws the bucket.
    for refused in (
        created(context, asked_by()),
        renewed(context, secrets[0], asked_by()),
        ended(context, secrets[0], asked_by()),
    ):
        assert refused.response.error_code == Errors.THROTTLING_QUOTA_EXCEEDED and not refused.records
        assert refused.response.throttle_time_ms > 0
    assert created(context, asked_by("bob")).response.error_code == Errors.NONE
    assert renewed(context, b"unknown", asked_by()).response.error_code == Errors.DELEGATION_TOKEN_NOT_FOUND
