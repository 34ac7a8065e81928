"""The settings of groups of Kafka 4.4.0 and 4.3.1, beyond what stories of a real controller show."""

import pytest

from config_facts import config_facts
from kcore.node.kraft.config_kinds import check_group, group_values
from kcore.node.kraft.group_configs import check_reset
from kcore.node.topic_configs import check_value
from kcore.protocol_errors import ApiException
from kcore.releases.known import RELEASES
from kcore.releases.settings import TopicConfig
from kcore.schema.configs import ConfigType

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def message(configs: dict[str, str], static: dict[str, str] | None = None, release: str = "4.4.0") -> str:
    """The error's message; empty if a group may have the settings."""
    try:
        check_group(release, "a group", configs, static or {})
    except ApiException as error:
        return str(error)
    return ""


def is_parsed(config: TopicConfig, text: str) -> bool:
    try:
        check_reset({config.name: check_value(config, text)})
    except ApiException:
        return False
    return True


def test_settings_of_groups_are_those_of_the_jars() -> None:
    facts, known = config_facts("4.4.0", "group"), RELEASES["4.4.0"].group_configs
    assert facts.keys() == known.keys()
    for name, fact in facts.items():
        assert (ConfigType(known[name].kind).name, known[name].default) == (fact.kind, fact.default), name
        for text, is_taken in fact.takes.items():
            assert is_parsed(known[name], text) is is_taken, (name, text)


@pytest.mark.parametrize(
    ("configs", "static", "expected"),
    [
        ({SESSION: "44999"}, {}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({SESSION: "60001"}, {}, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ({SESSION: "60001"}, {"group.consumer.max.session.timeout.ms": "60001"}, ""),
        ({"streams.num.standby.replicas": "3"}, {}, "streams.num.standby.replicas must be less than or equal to 2"),
        ({"streams.num.warmup.replicas": "21"}, {}, "streams.num.warmup.replicas must be less than or equal to 20"),
        (
            {"streams.task.offset.interval.ms": "14999"},
            {},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        ({"streams.assignor.name": "sticky"}, {}, ""),
        (
            {"streams.assignor.name": "x"},
            {"group.streams.assignors": "a , sticky"},
            "streams.assignor.name 'x' is not a registered task assignor. Registered assignors are: [a, sticky].",
        ),
        (
            {"streams.rack.aware.assignment.tags": "a, b,a"},
            {},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        ({"streams.rack.aware.assignment.tags": "a,b"}, {}, ""),
        (
            {"errors.deadletterqueue.topic.name": "__x"},
            {},
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
        ({"errors.deadletterqueue.topic.name": "_x"}, {}, ""),
        ({HEARTBEAT: "9000"}, {f"group.{SESSION}": "9000"}, f"{SESSION} must be greater than {HEARTBEAT}"),
        ({"no.such": "1"}, {}, "Unknown group config name: no.such"),
    ],
)
def test_a_group_may_not_have_them(configs: dict[str, str], static: dict[str, str], expected: str) -> None:
    assert message(configs, static) == expected


def test_settings_that_a_group_does_not_have_itself_are_not_checked() -> None:
    """4.3.1 checks the settings of the node too."""
    static = {f"group.{SESSION}": "70000"}
    own = {"share.isolation.level": "read_committed"}
    assert (
        message(own, static, "4.3.1")
        == f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"
    )
    assert message(own, static, "4.4.0") == ""


def test_internal_settings_are_shown_if_the_group_or_the_node_sets_them() -> None:
    lag = "streams.acceptable.recovery.lag"
    assert lag not in group_values("4.4.0", {}, {})
    assert group_values("4.4.0", {lag: "7"}, {})[lag] == "7"
    assert group_values("4.4.0", {}, {f"group.{lag}": "8"})[lag] == "8"


def test_the_default_assignor_is_the_first_of_the_nodes() -> None:
    assert group_values("4.4.0", {}, {})["streams.assignor.name"] == "sticky"
    assert group_values("4.4.0", {}, {"group.streams.assignors": "a,b"})["streams.assignor.name"] == "a"
