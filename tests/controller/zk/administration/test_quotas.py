"""Client quotas in znodes, as ZkAdminManager keeps them: altered, described, refused."""

from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.node.zk.admin import quotas
from kcore.node.zk.admin.quotas import as_text
from kcore.protocol_errors import Errors
from kcore.schema.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)

EXACT, DEFAULT, SPECIFIED = range(3)
Parts = dict[str, str | None]


def entry(entity: Parts, **quotas: float | None) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(cluster: Cluster, *entries: Any, validate_only: bool = False) -> list[tuple[Errors, str | None]]:
    request = AlterClientQuotasRequest(entries=[*entries], validate_only=validate_only)
    response = admin.ask(cluster, request)
    decoded = kcore.decode("AlterClientQuotasResponse", 1, kcore.encode(response, 1))
    assert [[(part.entity_type, part.entity_name) for part in each.entity] for each in decoded.entries] == [
        [(part.entity_type, part.entity_name) for part in each.entity] for each in entries
    ]
    return [(Errors(each.error_code), each.error_message) for each in decoded.entries]


def describe(cluster: Cluster, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """Quotas by entity, or the error."""
    made = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    response = admin.ask(cluster, DescribeClientQuotasRequest(components=made, strict=strict))
    decoded = kcore.decode("DescribeClientQuotasResponse", 1, kcore.encode(response, 1))
    if decoded.error_code:
        return Errors(decoded.error_code), decoded.error_message
    return {
        ",".join(f"{part.entity_type}={part.entity_name}" for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in decoded.entries
    }


def stored(cluster: Cluster, path: str) -> dict[str, str]:
    return znodes.decode_config(path, cluster.tree.nodes[path].data)


def test_many_quotas_are_altered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has a bounded number of entities, of an entity's parts, and of its quotas."""
    monkeypatch.setattr(quotas, "AT_ONCE", 5)
    cluster = small()
    assert (
        alter(cluster, *(entry({"user": ""}) for _ in range(20)))
        == [(Errors.INVALID_REQUEST, "Empty user not supported")] * 20
    )
    assert cluster.pauses == 4
    [last] = [entry({"user": "alice"})]
    last.entity *= 20
    last.ops = [OpData(key="producer_byte_rate", value=1.0 + number) for number in range(20)]
    assert alter(cluster, last) == [(Errors.NONE, None)]
    assert cluster.pauses == 4 + 4 + 4 + 4, "entities, and the types of one: read, changed, and answered"
    assert stored(cluster, "/config/users/alice") == {"producer_byte_rate": "20"}


def test_quotas_lie_where_brokers_look_for_them_and_notes_tell_of_them() -> None:
    cluster = small([1])
    entries = [
        entry({"user": "al ice"}, producer_byte_rate=1024.0, request_percentage=12.5),
        entry({"user": None}, consumer_byte_rate=5.0),
        entry({"user": "al ice", "client-id": "c/1"}, controller_mutation_rate=3.0),
        entry({"client-id": None}, producer_byte_rate=7.0),
        entry({"ip": "10.0.0.1"}, connection_creation_rate=9.0),
    ]
    assert alter(cluster, *entries) == [(Errors.NONE, None)] * 5
    assert stored(cluster, "/config/users/al%20ice") == {"producer_byte_rate": "1024", "request_percentage": "12.5"}
    assert stored(cluster, "/config/users/<default>") == {"consumer_byte_rate": "5"}
    assert stored(cluster, "/config/users/al%20ice/clients/c%2F1") == {"controller_mutation_rate": "3.0"}
    assert stored(cluster, "/config/clients/<default>") == {"producer_byte_rate": "7"}
    assert stored(cluster, "/config/ips/10.0.0.1") == {"connection_creation_rate": "9"}
    notes = [
        cluster.tree.nodes[f"/config/changes/{each}"].data for each in sorted(cluster.tree.children["/config/changes"])
    ]
    assert [znodes.decode_config_change("", each) for each in notes] == [
        *("users/al%20ice", "users/<default>", "users/al%20ice/clients/c%2F1", "clients/<default>", "ips/10.0.0.1"),
    ]


def test_a_clients_quota_needs_no_quota_of_its_user() -> None:
    cluster = small([1])
    assert alter(cluster, entry({"user": "u", "client-id": "c"}, request_percentage=1.0)) == [(Errors.NONE, None)]
    assert cluster.tree.nodes["/config/users/u"].data == b""
    assert describe(cluster) == {"user=u,client-id=c": {"request_percentage": 1.0}}


def test_credentials_of_the_user_stay() -> None:
    cluster = small([1])
    path = "/config/users/a"
    cluster.tree.create(path, znodes.encode_config({"SCRAM-SHA-256": "x", "producer_byte_rate": "5"}))
    assert describe(cluster) == {"user=a": {"producer_byte_rate": 5.0}}
    alter(cluster, entry({"user": "a"}, producer_byte_rate=None, consumer_byte_rate=8.0))
    assert stored(cluster, path) == {"SCRAM-SHA-256": "x", "consumer_byte_rate": "8"}


def test_unknown_quotas_and_invalid_numbers_are_left_out() -> None:
    cluster = small([1])
    found = {
        "producer_byte_rate": "many",
        "consumer_byte_rate": "8",
        "sasl.window": "7",
        "connection_creation_rate": "1",
    }
    cluster.tree.create("/config/users/a", znodes.encode_config(found))
    assert describe(cluster) == {"user=a": {"consumer_byte_rate": 8.0}}
    assert describe(cluster, ("user", DEFAULT, "a")) == {}, "the name of a default is passed over"


def test_whoever_is_always_faster_wins() -> None:
    cluster = small([1])
    path = "/config/users/a"
    cluster.tree.create(path, znodes.encode_config({"SCRAM-SHA-256": "x"}))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.tree.set_data(path, cluster.tree.nodes[path].data)

    cluster.before = before
    [(error, message)] = alter(cluster, entry({"user": "a"}, consumer_byte_rate=8.0))
    assert error is Errors.UNKNOWN_SERVER_ERROR and message is not None and "attempts" in message
    assert stored(cluster, path) == {"SCRAM-SHA-256": "x"}


def test_what_another_writes_meanwhile_is_kept() -> None:
    cluster = small([1])
    path = "/config/users/a"
    cluster.tree.create(path, znodes.encode_config({"producer_byte_rate": "5"}))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.tree.set_data(path, znodes.encode_config({"SCRAM-SHA-256": "x"}))

    cluster.before = before
    assert alter(cluster, entry({"user": "a"}, consumer_byte_rate=8.0)) == [(Errors.NONE, None)]
    assert stored(cluster, path) == {"SCRAM-SHA-256": "x", "consumer_byte_rate": "8"}


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        ({}, {}, "Invalid empty client quota entity"),
        ({"user": ""}, {}, "Empty user not supported"),
        ({"group": "g"}, {}, "Unhandled client quota entity type: group"),
        ({"user": ".."}, {}, "No znode can be named '..'"),
        ({"ip": "nowhere"}, {}, "nowhere is not a valid IP or resolvable host."),
        ({"ip": "::1"}, {}, "::1 is not a valid IP or resolvable host."),
        ({"user": "u"}, {"fly_rate": 1.0}, "Invalid configuration key fly_rate"),
        ({"user": "u"}, {"producer_byte_rate": -1.0}, "Quota producer_byte_rate must be greater than 0"),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
        ({"user": "u"}, {"producer_byte_rate": float("nan")}, "Quota producer_byte_rate must be a number"),
        ({"user": "u"}, {"request_percentage": float("inf")}, "Quota request_percentage must be a number"),
    ],
)
def test_what_is_refused_costs_nobody_else(entity: Parts, quotas: dict[str, float], message: str) -> None:
    cluster = small([1])
    good = entry({"user": "good"}, producer_byte_rate=1.0)
    assert alter(cluster, entry(entity, **quotas), good) == [(Errors.INVALID_REQUEST, message), (Errors.NONE, None)]
    assert cluster.tree.children["/config/users"] == {"good"} and not cluster.tree.children["/config/ips"]


def test_validation_alone_writes_nothing() -> None:
    cluster = small([1])
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=1.0), validate_only=True) == [(Errors.NONE, None)]
    assert not cluster.tree.children["/config/users"] and not cluster.tree.children["/config/changes"]


def test_entities_are_found_by_their_parts() -> None:
    cluster = small([1])
    one = {"producer_byte_rate": 1.0}
    for entity in ({"user": "a"}, {"user": None}, {"user": "a", "client-id": "c"}, {"client-id": "c"}):
        alter(cluster, entry(entity, **one))  # type: ignore[arg-type]
    alter(cluster, entry({"ip": "10.0.0.1"}, connection_creation_rate=2.0))
    everything = {"user=a", "user=None", "user=a,client-id=c", "client-id=c", "ip=10.0.0.1"}
    assert {*describe(cluster)} == everything and describe(cluster, strict=True) == {}
    assert {*describe(cluster, ("user", EXACT, "a"))} == {"user=a", "user=a,client-id=c"}
    assert {*describe(cluster, ("user", EXACT, "a"), strict=True)} == {"user=a"}
    assert {*describe(cluster, ("user", DEFAULT, None))} == {"user=None"}
    assert {*describe(cluster, ("client-id", SPECIFIED, None))} == {"user=a,client-id=c", "client-id=c"}
    both = ("user", SPECIFIED, None), ("client-id", EXACT, "c")
    assert {*describe(cluster, *both, strict=True)} == {"user=a,client-id=c"}
    assert describe(cluster, ("ip", SPECIFIED, None)) == {"ip=10.0.0.1": {"connection_creation_rate": 2.0}}


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", 0, "")], Errors.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        ([("x", 0, "")], Errors.UNSUPPORTED_VERSION, "Custom entity type 'x' not supported"),
        ([("user", 0, "a")] * 2, Errors.INVALID_REQUEST, "Duplicate user filter component entity type"),
        ([("user", 7, "a")], Errors.INVALID_REQUEST, "Unexpected match type: 7"),
        (
            [("user", 0, "a"), ("ip", 0, "b")],
            Errors.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        ),
    ],
)
def test_filters_that_make_no_sense(components: list[Any], error: Errors, message: str) -> None:
    assert describe(small([1]), *components) == (error, message)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1.0, "1.0"), (12.5, "12.5"), (9999999.0, "9999999.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7")),
        *((1.5e22, "1.5E22"), (2e-5, "2.0E-5")),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert as_text(False, value) == text
