"""Client quotas, beyond what stories of a real controller show."""

import pytest

from controller.kraft.contexts import a_context, applied, at_once, in_parts
from kcore.controller.kraft.admin import quotas
from kcore.controller.kraft.admin.quotas import on_alter_client_quotas
from kcore.controller.kraft.decision import Decision
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.protocol_errors import Errors
from kcore.schema.quotas import AlterClientQuotasRequest, AlterClientQuotasRequestEntryData, EntityData, OpData

INFO = RequestInfo(1, 0)
RATE = "consumer_byte_rate"


def entry(
    *parts: tuple[str, str | None], ops: tuple[tuple[str, float | None], ...] = ()
) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def altered(context: ControllerContext, *entries: AlterClientQuotasRequestEntryData, check: bool = False) -> Decision:
    request = AlterClientQuotasRequest(entries=[*entries], validate_only=check)
    return at_once(on_alter_client_quotas(context, request, INFO))


def messages(decision: Decision) -> list[str | None]:
    return [each.error_message for each in decision.response.entries]


def test_a_quota_is_set_kept_changed_and_removed() -> None:
    context, user = a_context(), ("user", "alice")
    assert not context.image.quotas
    applied(context, altered(context, entry(user, ops=((RATE, 10.0), ("request_percentage", 0.5)))))
    assert context.image.quotas == {(user,): {RATE: 10.0, "request_percentage": 0.5}}
    assert not altered(context, entry(user, ops=((RATE, 10.0),))).records
    assert not altered(context, entry(user, ops=((RATE, 11.0),)), check=True).records
    applied(context, altered(context, entry(user, ops=((RATE, None), ("request_percentage", 7.0)))))
    assert context.image.quotas == {(user,): {"request_percentage": 7.0}}
    assert not altered(context, entry(user, ops=((RATE, None),))).records


def test_one_value_that_is_wrong_keeps_the_whole_entity_as_it_is() -> None:
    decision = altered(
        a_context(),
        entry(("user", "alice"), ops=((RATE, 5.0), ("bogus", 1.0))),
        entry(("user", None), ops=((RATE, 5.0),)),
    )
    assert len(decision.records) == 1
    assert sorted(messages(decision), key=str) == ["Invalid configuration key bogus", None]


def test_many_entities_are_decided_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision and the order of the answer are those of one part."""
    entries = [entry(("user", f"u{number % 15}"), ops=((RATE, 1.0 + number),)) for number in range(20)]
    whole = altered(a_context(), *entries)
    monkeypatch.setattr(quotas, "ENTRIES_AT_ONCE", 5)
    decision, parts = in_parts(on_alter_client_quotas(a_context(), AlterClientQuotasRequest(entries=entries), INFO))
    assert decision == whole and len(decision.records) == 15
    assert parts == 1 + 20 // 5 + 15 // 5, "decided, and answered"


def test_each_entity_has_its_answer() -> None:
    user, client, address = ("user", "alice"), ("client-id", None), ("ip", "10.0.0.1")
    good, rate = ((RATE, 5.0),), (("connection_creation_rate", 5.0),)
    entries = [entry(user, client, ops=good), entry(client, ops=good), entry(address, ops=rate)]
    entries += [
        entry(address, client, ops=rate),
        entry(("user", ""), ops=good),
        entry(("team", "t"), ops=good),
        entry(),
    ]
    decision = altered(a_context(), *entries)
    assert {
        frozenset((part.entity_type, part.entity_name) for part in each.entity): (each.error_code, each.error_message)
        for each in decision.response.entries
    } == {
        frozenset({user, client}): (Errors.NONE, None),
        frozenset({client}): (Errors.NONE, None),
        frozenset({address}): (Errors.NONE, None),
        frozenset({address, client}): (
            Errors.INVALID_REQUEST,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        frozenset({("user", "")}): (Errors.INVALID_REQUEST, "Empty user not supported"),
        frozenset({("team", "t")}): (Errors.INVALID_REQUEST, "Unhandled client quota entity type: team"),
        frozenset(): (Errors.INVALID_REQUEST, "Invalid empty client quota entity"),
    }
    assert len(decision.records) == 3


def test_an_entity_is_the_same_in_whatever_order_its_parts_come() -> None:
    context, parts = a_context(), (("user", "u"), ("client-id", "c"))
    applied(context, altered(context, entry(*parts, ops=((RATE, 5.0),))))
    assert not altered(context, entry(*parts[::-1], ops=((RATE, 5.0),))).records
    assert not altered(context, entry(*parts), entry(*parts[::-1])).records


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        (RATE, 0.5, f"{RATE} cannot be a fractional value."),
        (RATE, 1.0 + 1e-7, None),
        (RATE, 1e19, f"Proposed value for {RATE} is too large for a LONG."),
        (RATE, 2.0**63, None),
        ("request_percentage", 0.25, None),
        ("connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
    ],
)
def test_values_of_users(key: str, value: float, message: str | None) -> None:
    assert messages(altered(a_context(), entry(("user", "u"), ops=((key, value),)))) == [message]


def test_values_of_addresses() -> None:
    rate = "connection_creation_rate"
    found = [
        messages(altered(a_context(), entry(("ip", "::1"), ops=((key, value),))))
        for key, value in ((rate, 2.0**31 - 1), (rate, 2.0**31), (RATE, 1.0))
    ]
    assert found == [
        [None],
        [f"Proposed value for {rate} is too large for an INT."],
        [f"Invalid configuration key {RATE}"],
    ]


def test_not_a_number_is_written_once_in_4_3() -> None:
    context = a_context(release="4.3.1")
    ask = entry(("user", "u"), ops=(("request_percentage", float("nan")),))
    applied(context, altered(context, ask))
    assert not altered(context, ask).records
    number = entry(("user", "u"), ops=(("request_percentage", 5.0),))
    applied(context, altered(context, number))
    assert len(altered(context, ask).records) == 1


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        *[(each, True) for each in ("10.0.0.1", "::1", "[::1]", "fe80::1", "localhost", None)],
        *[(each, False) for each in ("nowhere.invalid.", "999.0.0.1", "[::1", "a.example", " ", "\ud800")],
    ],
)
def test_addresses_are_not_looked_up(address: str | None, is_one: bool) -> None:
    found = messages(altered(a_context(), entry(("ip", address), ops=(("connection_creation_rate", 1.0),))))
    assert found == [None if is_one else f"{address} is not a valid IP or resolvable host."]


def test_an_entity_that_is_named_twice_is_refused_but_keeps_what_was_decided_first() -> None:
    context, user = a_context(), ("user", "alice")
    decision = altered(context, entry(user, ops=((RATE, 1.0),)), entry(user, ops=((RATE, 2.0),)))
    assert messages(decision) == ["Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"]
    assert len(decision.records) == 1


def test_a_key_that_is_named_twice_is_refused() -> None:
    decision = altered(a_context(), entry(("user", None), ops=((RATE, 1.0), (RATE, 2.0))))
    assert messages(decision) == ["Ignoring duplicate entity ClientQuotaEntity(entries={user=null})"]
    assert not decision.records


@pytest.mark.long
def test_fifty_thousand_entities() -> None:
    context = a_context()
    decision = altered(context, *(entry(("user", f"u{k}"), ops=((RATE, 1.0),)) for k in range(50_000)))
    applied(context, decision)
    assert len(context.image.quotas) == 50_000


def test_who_may_not_alter_configs_changes_nothing() -> None:
    decision = altered(a_context(has_authorizer=True), entry(("user", "u"), ops=((RATE, 1.0),)))
    assert [each.error_code for each in decision.response.entries] == [Errors.CLUSTER_AUTHORIZATION_FAILED]
    assert messages(decision) == ["Cluster authorization failed."]
    assert not decision.records


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_a_quota_is_finite_from_4_4_on(value: float) -> None:
    ops = (("request_percentage", value),)
    assert messages(altered(a_context(release="4.4.0"), entry(("user", "a"), ops=ops))) == [
        "Quota request_percentage must be a finite number"
    ]
    older = altered(a_context(release="4.3.1"), entry(("user", "a"), ops=ops))
    assert messages(older) == (["Quota request_percentage must be greater than 0"] if value < 0 else [None])


def test_an_infinite_rate_is_too_large_in_4_3() -> None:
    ask = entry(("user", "u"), ops=((RATE, float("inf")),))
    assert messages(altered(a_context(release="4.3.1"), ask)) == [f"Proposed value for {RATE} is too large for a LONG."]
