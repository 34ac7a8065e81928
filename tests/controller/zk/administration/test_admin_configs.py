"""IncrementalAlterConfigs and DescribeConfigs of topics."""

from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore import schema
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.protocol_errors import Errors
from kcore.schema.configs import (
    DescribeConfigsResource,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4
PATH = "/config/topics/t"


def resource(
    *changes: tuple[int, str, str | None], name: str = "t", kind: int = TOPIC
) -> IncrementalAlterConfigsRequestAlterConfigsResource:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(config_operation=operation, name=key, value=value)
        for operation, key, value in changes
    ]
    return IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def alter(cluster: Cluster, *resources: Any, validate_only: bool = False, version: int = 1) -> list[tuple[Errors, Any]]:
    request = schema.IncrementalAlterConfigsRequest(resources=[*resources], validate_only=validate_only)
    response = admin.ask(cluster, request)
    decoded = kcore.decode("IncrementalAlterConfigsResponse", version, kcore.encode(response, version))
    assert [each.resource_name for each in decoded.responses] == [each.resource_name for each in resources]
    return [(Errors(each.error_code), each.error_message) for each in decoded.responses]


def stored(cluster: Cluster) -> dict[str, str]:
    return znodes.decode_config(PATH, cluster.tree.nodes[PATH].data)


def with_settings(**settings: str) -> Cluster:
    cluster = small([1, 2])
    cluster.tree.create(PATH, znodes.encode_config({key.replace("_", "."): value for key, value in settings.items()}))
    return cluster


@pytest.mark.parametrize("version", [0, 1])
def test_settings_are_written_and_a_note_of_it(version: int) -> None:
    cluster = with_settings(retention_ms="1", segment_bytes="100")
    changes = (SET, "retention.ms", "5"), (DELETE, "segment.bytes", None), (SET, "cleanup.policy", "compact")
    assert alter(cluster, resource(*changes), version=version) == [(Errors.NONE, None)]
    assert stored(cluster) == {"retention.ms": "5", "cleanup.policy": "compact"}
    [note] = cluster.tree.children["/config/changes"]
    assert note.startswith("config_change_")
    assert cluster.tree.nodes[f"/config/changes/{note}"].data == b'{"version":2,"entity_path":"topics/t"}'


def test_a_topic_without_a_znode_for_its_settings_gets_one() -> None:
    cluster = small([1, 2])
    assert alter(cluster, resource((SET, "retention.ms", "5"))) == [(Errors.NONE, None)]
    assert stored(cluster) == {"retention.ms": "5"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    cluster = small([1, 2])
    assert alter(cluster, resource((APPEND, "cleanup.policy", "compact,delete"))) == [(Errors.NONE, None)]
    assert stored(cluster) == {"cleanup.policy": "delete,compact"}
    assert alter(cluster, resource((SUBTRACT, "cleanup.policy", "delete"))) == [(Errors.NONE, None)]
    assert stored(cluster) == {"cleanup.policy": "compact"}
    name = "leader.replication.throttled.replicas"
    assert alter(cluster, resource((APPEND, name, "0:1"))) == [(Errors.NONE, None)]
    assert stored(cluster)[name] == "0:1"


def test_a_topic_that_may_be_led_uncleanly_from_now_on_is() -> None:
    cluster = small([1, 2])
    admin.alter_partition(cluster, 1, [1])
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t")[0] == -1
    assert alter(cluster, resource((SET, "unclean.leader.election.enable", "true"))) == [(Errors.NONE, None)]
    assert cluster.state("t")[:2] == (2, (2,))


def test_throttles_are_taken_off_this_node_too() -> None:
    """It is listed as a broker, and kafka-reassign-partitions --verify clears those of all brokers."""
    cluster = small([1, 2])
    name = "leader.replication.throttled.rate"
    own = str(cluster.active.config.broker_id)
    assert alter(cluster, resource((DELETE, name, None), name=own, kind=BROKER)) == [(Errors.NONE, None)]
    [(error, _)] = alter(cluster, resource((SET, name, "1"), name=own, kind=BROKER))
    assert error is Errors.INVALID_REQUEST


def test_the_controllers_own_settings_and_those_of_all_brokers() -> None:
    """kafka-configs --entity-type brokers asks it as it asks any broker that is listed."""
    cluster = small([1, 2], num_partitions=3)
    own, name = str(cluster.active.config.broker_id), "follower.replication.throttled.rate"
    [ours, everybodys] = describe(cluster, own, "", kind=BROKER)
    assert (ours.error_code, everybodys.error_code, everybodys.configs) == (Errors.NONE, Errors.NONE, [])
    settings = {each.name: (each.value, each.config_source, each.read_only) for each in ours.configs}
    assert settings["broker.id"] == (own, 4, True) and settings["num.partitions"] == ("3", 4, True)
    assert settings["unclean.leader.election.enable"] == ("false", 4, True)
    assert alter(cluster, resource((SET, name, "7"), name="", kind=BROKER)) == [(Errors.NONE, None)]
    [note] = cluster.tree.children["/config/changes"]
    assert cluster.tree.nodes[f"/config/changes/{note}"].data == b'{"version":2,"entity_path":"brokers/<default>"}'
    [everybodys] = describe(cluster, "", kind=BROKER)
    assert [(each.name, each.value, each.config_source) for each in everybodys.configs] == [(name, "7", 3)]
    cluster.tree.set_data("/config/brokers/<default>", znodes.encode_config({"ssl.keystore.password": "encrypted"}))
    [everybodys] = describe(cluster, "", kind=BROKER)
    assert [(each.value, each.is_sensitive) for each in everybodys.configs] == [(None, True)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (resource((SET, "a", "1"), (SET, "a", "2")), (Errors.INVALID_REQUEST, "Error due to duplicate config keys")),
        (resource((SET, "a", None)), (Errors.INVALID_REQUEST, "Null value not supported for : a")),
        (
            resource((SET, "retention.ms", "1"), kind=BROKER),
            (Errors.INVALID_REQUEST, "Unexpected broker id, expected 1000 or empty string, but received t"),
        ),
        (
            resource((SET, "retention.ms", "1"), kind=16),
            (Errors.INVALID_REQUEST, "This node has no settings of type 16."),
        ),
        (resource(name=""), (Errors.INVALID_REQUEST, "Default topic resources are not allowed.")),
        (resource(name="gone"), (Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'gone' does not exist.")),
        (resource((SET, "nonsense", "1")), (Errors.INVALID_CONFIG, "Unknown topic config name: nonsense")),
        (resource((APPEND, "nonsense", "1")), (Errors.INVALID_CONFIG, "Unknown topic config name: nonsense")),
        (
            resource((APPEND, "retention.ms", "1")),
            (Errors.INVALID_CONFIG, "Config value append is not allowed for config key: retention.ms"),
        ),
        (
            resource((SUBTRACT, "retention.ms", "1")),
            (Errors.INVALID_CONFIG, "Config value subtract is not allowed for config key: retention.ms"),
        ),
        (
            resource((7, "retention.ms", "1")),
            (Errors.INVALID_REQUEST, "Unknown operation 7 for config key: retention.ms"),
        ),
        (
            resource((SET, "retention.ms", "long")),
            (
                Errors.INVALID_CONFIG,
                "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
                "Invalid value long for configuration retention.ms: Not a number of type LONG",
            ),
        ),
    ],
)
def test_what_is_refused(asked: Any, expected: tuple[Errors, str]) -> None:
    cluster = with_settings(segment_bytes="100")
    cluster.write_topic("good", [1])
    cluster.run()
    assert alter(cluster, asked, resource((SET, "retention.ms", "7"), name="good")) == [expected, (Errors.NONE, None)]
    assert stored(cluster) == {"segment.bytes": "100"}
    assert len(cluster.tree.children["/config/changes"]) == 1


def test_a_resource_that_is_named_twice() -> None:
    cluster = with_settings()
    expected = Errors.INVALID_REQUEST, "Each resource must appear at most once."
    assert alter(cluster, resource((SET, "retention.ms", "1")), resource()) == [expected] * 2
    assert stored(cluster) == {}


def test_validate_only_changes_nothing() -> None:
    cluster = with_settings()
    assert alter(cluster, resource((SET, "retention.ms", "1")), validate_only=True) == [(Errors.NONE, None)]
    assert stored(cluster) == {}
    assert cluster.tree.children["/config/changes"] == set()


def describe(
    cluster: Cluster, *names: str, version: int = 4, keys: list[str] | None = None, kind: int = TOPIC
) -> list[Any]:
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names
    ]
    request = schema.DescribeConfigsRequest(resources=resources, include_synonyms=version >= 1)
    response = admin.ask(cluster, request, version)
    return kcore.decode("DescribeConfigsResponse", version, kcore.encode(response, version)).results


def test_a_resource_that_is_named_again_is_described_once() -> None:
    """A few bytes of the request would be five kilobytes of the response, as often as they fit into it."""
    results = describe(with_settings(), "t", "unknown", "t", "t", "unknown")
    assert [(each.resource_name, each.error_code) for each in results] == [
        ("t", Errors.NONE),
        ("unknown", Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("version", range(5))
def test_settings_are_described(version: int) -> None:
    [result] = describe(with_settings(retention_ms="1"), "t", version=version)
    assert (result.error_code, result.error_message, len(result.configs)) == (Errors.NONE, None, 36)
    by_name = {each.name: each for each in result.configs}
    assert by_name["retention.ms"].value == "1"
    if version == 0:
        assert {each.name for each in result.configs if not each.is_default} == {"retention.ms"}
        return
    assert {each.name for each in result.configs if each.config_source == 1} == {"retention.ms"}
    assert _synonyms(by_name["retention.ms"]) == [("retention.ms", "1", 1)]
    assert _synonyms(by_name["segment.bytes"]) == [("log.segment.bytes", "1073741824", 5)]
    assert _synonyms(by_name["segment.ms"]) == [], "log.roll.ms has no default"
    if version >= 3:
        assert {by_name["retention.ms"].config_type, by_name["cleanup.policy"].config_type} == {5, 7}


def _synonyms(setting: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in setting.synonyms]


def test_some_settings_and_all() -> None:
    cluster = with_settings()
    [some] = describe(cluster, "t", keys=["segment.ms", "retention.ms", "nonsense"])
    assert {each.name for each in some.configs} == {"segment.ms", "retention.ms"}
    [every] = describe(cluster, "t", keys=[])
    assert len(every.configs) == 36


def test_settings_of_what_there_is_not() -> None:
    cluster = with_settings()
    results = describe(cluster, "gone", "a/b", "t")
    assert [each.error_code for each in results] == [
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.NONE,
    ]
    assert describe(cluster, "1", kind=BROKER)[0].error_code == Errors.INVALID_REQUEST


def test_a_znode_that_makes_no_sense_sets_nothing() -> None:
    cluster = with_settings()
    cluster.tree.set_data(PATH, b"no JSON")
    [result] = describe(cluster, "t")
    assert {each.config_source for each in result.configs} == {5}


@pytest.mark.parametrize("exists", [False, True])
def test_settings_that_another_node_writes_meanwhile_stay(exists: bool) -> None:
    """The node reads the znode again, and alters it again."""
    cluster = small([1, 2])
    if exists:
        alter(cluster, resource((SET, "retention.ms", "8")))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            write = cluster.tree.set_data if exists else cluster.tree.create
            write(PATH, znodes.encode_config({"retention.ms": "9"}))

    cluster.before = before
    assert alter(cluster, resource((SET, "segment.ms", "5"))) == [(Errors.NONE, None)]
    assert stored(cluster) == {"retention.ms": "9", "segment.ms": "5"}


def test_settings_that_are_replaced_are_all_that_is_left_though_another_node_adds_one_meanwhile() -> None:
    cluster = small([1, 2])
    alter(cluster, resource((SET, "retention.ms", "8")))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.tree.set_data(PATH, znodes.encode_config({"retention.ms": "8", "flush.ms": "7"}))

    cluster.before = before
    kept = schema.configs.AlterConfigsRequestAlterableConfig(name="segment.ms", value="5")
    wanted = schema.configs.AlterConfigsRequestAlterConfigsResource(resource_type=2, resource_name="t", configs=[kept])
    [result] = admin.ask(cluster, schema.configs.AlterConfigsRequest(resources=[wanted])).responses
    assert result.error_code == Errors.NONE and stored(cluster) == {"segment.ms": "5"}


def test_settings_that_could_not_be_written_are_no_success() -> None:
    cluster, values = small([1, 2]), iter(range(100))
    alter(cluster, resource((SET, "retention.ms", "8")))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.tree.set_data(PATH, znodes.encode_config({"retention.ms": str(next(values))}))

    cluster.before = before
    assert alter(cluster, resource((SET, "segment.ms", "5"))) == [
        (Errors.UNKNOWN_SERVER_ERROR, "Not written: the znode has another version")
    ]
    assert stored(cluster) == {"retention.ms": "9"}
