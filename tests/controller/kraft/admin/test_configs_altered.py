"""Settings that are altered and described: what recorded stories do not show."""

import pytest

from controller.kraft.broker_clusters import BEGIN_MS, a_cluster, put
from controller.kraft.contexts import decision_of
from controller.kraft.partitions.test_topics_bulk import a_topic, create, written
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.departures import KAFKA_WAY
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.metadata.metadata_version import MetadataVersion
from kcore.protocol_errors import Errors
from kcore.schema import configs as schema
from kcore.schema.metadata_records_settings import ConfigRecord, FeatureLevelRecord
from kcore.schema.metadata_records_topics import ClearElrRecord
from kcore.schema.structure import Message

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Resource = tuple[int, str]
LEVEL_OF_4_3 = MetadataVersion.parse("4.3-IV0").feature_level
CORDONED = "cordoned.log.dirs"


def decided(context: ControllerContext, request: Message, *, is_forwarded: bool = False) -> Decision:
    return decision_of(context, request, RequestInfo(1, BEGIN_MS, is_forwarded=is_forwarded))


def alter(
    context: ControllerContext, *resources: tuple[Resource, list[Change]], is_forwarded: bool = False
) -> Decision:
    """IncrementalAlterConfigs; nothing takes effect."""
    asked = [
        schema.IncrementalAlterConfigsRequestAlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                schema.IncrementalAlterConfigsRequestAlterableConfig(name=each, config_operation=operation, value=value)
                for each, operation, value in changes
            ],
        )
        for (kind, name), changes in resources
    ]
    request = schema.IncrementalAlterConfigsRequest(resources=asked)
    return decided(context, request, is_forwarded=is_forwarded)


def codes(decision: Decision) -> list[int]:
    response = decision.response
    assert isinstance(response, schema.IncrementalAlterConfigsResponse)
    return [each.error_code for each in response.responses]


def apply(context: ControllerContext, decision: Decision) -> None:
    for each in decision.records:
        assert isinstance(each, Versioned)
        put(context, each.record)


def with_topic(**settings: object) -> ControllerContext:
    """A cluster with the topic a."""
    context = a_cluster(**settings)
    return written(context, create(context, a_topic("a")))


@pytest.mark.parametrize(
    "change", [("retention.ms", 9, "1"), ("cleanup.policy", APPEND, None), ("cleanup.policy", SUBTRACT, None)]
)
def test_an_operation_that_brings_kafka_down_is_refused_as_a_whole(change: Change) -> None:
    context = with_topic()
    decision = alter(context, ((TOPIC, "a"), [change]), ((BROKER, ""), [("log.retention.ms", SET, "1")]))
    assert codes(decision) == [Errors.INVALID_REQUEST] * 2
    assert not decision.records


def test_lists_grow_and_shrink() -> None:
    context = with_topic()
    for change, expected in (
        (("cleanup.policy", APPEND, "compact"), "delete,compact"),
        (("cleanup.policy", APPEND, "delete,compact"), "delete,compact"),
        (("cleanup.policy", SUBTRACT, "delete"), "compact"),
        (("cleanup.policy", APPEND, ","), "compact"),  # String.split leaves nothing.
    ):
        decision = alter(context, ((TOPIC, "a"), [change]))
        assert codes(decision) == [Errors.NONE]
        apply(context, decision)
        assert context.image.configs[TOPIC, "a"]["cleanup.policy"] == expected


def test_an_equal_value_is_written_again_for_a_broker_alone() -> None:
    context = with_topic()
    changes = ((TOPIC, "a"), [("retention.ms", SET, "1")]), ((BROKER, "1"), [("log.retention.ms", SET, "1")])
    apply(context, alter(context, *changes))
    (again,) = alter(context, *changes).records
    assert isinstance(again, Versioned)
    assert again.record == ConfigRecord(resource_type=BROKER, resource_name="1", name="log.retention.ms", value="1")


def test_elr_is_forgotten_where_min_insync_replicas_changes() -> None:
    context = with_topic()
    put(context, FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    decision = alter(
        context,
        ((TOPIC, "a"), [("min.insync.replicas", SET, "2")]),
        ((BROKER, ""), [("min.insync.replicas", SET, "2")]),
        ((BROKER, "1"), [("min.insync.replicas", SET, "2")]),
    )
    assert sorted(codes(decision)) == [0, 0, Errors.INVALID_CONFIG]
    records = [each.record for each in decision.records if isinstance(each, Versioned)]
    assert [type(each) for each in records] == [ConfigRecord, ConfigRecord, ClearElrRecord, ClearElrRecord]
    assert records[2:] == [ClearElrRecord(topic_name="a"), ClearElrRecord(topic_name="")]


def test_only_a_broker_may_cordon_more_of_its_directories() -> None:
    context = with_topic(level=LEVEL_OF_4_3)
    cordon = (BROKER, "1"), [(CORDONED, SET, "/a, /b")]
    assert codes(alter(context, cordon)) == [Errors.INVALID_CONFIG]
    decision = alter(context, cordon, is_forwarded=True)
    assert codes(decision) == [0]
    apply(context, decision)
    assert codes(alter(context, ((BROKER, "1"), [(CORDONED, SET, "/b")]))) == [0]
    assert codes(alter(context, ((BROKER, "1"), [(CORDONED, SET, "/c")]))) == [Errors.INVALID_CONFIG]
    assert codes(alter(context, ((BROKER, "1"), [(CORDONED, DELETE, None)]))) == [0]


def test_cordoning_needs_the_level_that_knows_it() -> None:
    context = a_cluster(level=LEVEL_OF_4_3 - 1)
    assert codes(alter(context, ((BROKER, "1"), [(CORDONED, SET, "/a")]), is_forwarded=True)) == [Errors.INVALID_CONFIG]


@pytest.mark.parametrize(("length", "code"), [(32_767, 0), (32_768, Errors.INVALID_CONFIG)])
def test_a_value_has_32_767_characters_at_the_most(length: int, code: int) -> None:
    context = with_topic()
    assert codes(alter(context, ((BROKER, ""), [("x", SET, "1" * length)]))) == [code]
    pairs = "😀" * (length // 2) + "1" * (length % 2)  # Two units of UTF-16 each.
    assert codes(alter(context, ((BROKER, ""), [("x", SET, pairs)]))) == [code]


@pytest.mark.parametrize(
    ("name", "code"),
    [("3000", 102), ("9" * 5000, 42), ("-1", 42), ("+1", 0), ("٣", 42), ("2147483648", 42), ("1_0", 42)],
)
def test_names_of_nodes(name: str, code: int) -> None:
    assert codes(alter(with_topic(), ((BROKER, name), [("x", SET, "1")]))) == [code]


def test_a_voter_that_stands_in_server_properties_is_a_node() -> None:
    context = with_topic(static_configs={"controller.quorum.voters": "3000@a:1, 3001@b:1"})
    found = [codes(alter(context, ((BROKER, name), [("x", SET, "1")])))[0] for name in ("3000", "3001", "3002")]
    assert found == [0, 0, Errors.BROKER_ID_NOT_REGISTERED]


@pytest.mark.parametrize(
    "pattern", ["client_id=((((", "client_id=" + "(" * 100_000, "client_id", "a=b", "client_id=a=b"]
)
def test_a_pattern_of_client_metrics_that_is_none_is_refused(pattern: str) -> None:
    assert codes(alter(with_topic(), ((METRICS, "m"), [("match", SET, pattern)]))) == [Errors.INVALID_CONFIG]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("consumer.session.timeout.ms", "45000", 0),
        ("consumer.session.timeout.ms", "44999", Errors.INVALID_CONFIG),
        ("consumer.heartbeat.interval.ms", "15001", Errors.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:PT1H", 0),
        ("share.auto.offset.reset", "by_duration:soon", Errors.INVALID_CONFIG),
        ("share.isolation.level", "read_committed", 0),
        ("streams.num.standby.replicas", "3", Errors.INVALID_CONFIG),
        ("streams.num.standby.replicas", "many", Errors.INVALID_CONFIG),
    ],
)
def test_settings_of_groups(name: str, value: str, code: int) -> None:
    assert codes(alter(with_topic(), ((GROUP, "g"), [(name, SET, value)]))) == [code]


def test_a_request_may_write_more_than_10_000_records_unless_it_is_to_be_as_in_kafka() -> None:
    changes = [(f"x{number}", SET, "1") for number in range(10_001)]
    decision = alter(with_topic(), ((BROKER, ""), changes))
    assert (codes(decision), len(decision.records)) == ([0], 10_001)
    decision = alter(with_topic(kafka_way=KAFKA_WAY), ((BROKER, ""), changes))
    assert (codes(decision), len(decision.records)) == ([Errors.POLICY_VIOLATION], 0)


def test_the_value_of_a_password_is_not_reported() -> None:
    context = with_topic(static_configs={"ssl.key.password": "secret", "listener.name.x.ssl.key.password": "secret"})
    apply(context, alter(context, ((BROKER, "1"), [("x", SET, "1")]), ((BROKER, ""), [("no.such", SET, "secret")])))
    for name in ("", "3000"):
        resource = schema.DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
        request = schema.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        response = decided(context, request).response
        assert isinstance(response, schema.DescribeConfigsResponse)
        (result,) = response.results
        found = [each for each in result.configs if each.is_sensitive]
        names = {each.name for each in found}
        assert names >= ({"no.such", "ssl.key.password", "listener.name.x.ssl.key.password"} if name else {"no.such"})
        assert {each.value for each in found} == {None}
        assert {synonym.value for each in found for synonym in each.synonyms} == {None}


REMOTE = {"remote.storage.enable": "true", "retention.ms": "1000", "retention.bytes": "2000"}


@pytest.mark.parametrize(
    ("configs", "refused"),
    [
        ({"remote.copy.lag.ms": "1000", "remote.copy.lag.bytes": "2000"}, ""),
        ({"remote.copy.lag.ms": "-1", "remote.copy.lag.bytes": "-1"}, ""),
        ({"remote.copy.lag.bytes": "5", "retention.bytes": "-1"}, ""),
        ({"remote.copy.lag.ms": "1001"}, "ms (effective value: 1000)"),
        ({"remote.copy.lag.ms": "8", "local.retention.ms": "7"}, "ms (effective value: 7)"),
        ({"remote.copy.lag.bytes": "2001", "remote.copy.lag.ms": "1001"}, "bytes (effective value: 2000)"),
    ],
)
def test_segments_are_copied_before_their_local_copies_are_deleted(configs: dict[str, str], refused: str) -> None:
    static = {"remote.log.storage.system.enable": "true"}
    context = with_topic(level=30, release="4.4.0", static_configs=static)
    changes = [(name, SET, value) for name, value in {**REMOTE, **configs}.items()]
    [answer] = alter(context, ((TOPIC, "a"), changes)).response.responses
    assert (answer.error_code, refused in (answer.error_message or "")) == (40 if refused else 0, True)
