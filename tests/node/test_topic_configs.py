"""The settings of topics, compared with what Kafka's own LogConfig has and says."""

from typing import Any

import pytest

import cases
from kcore.node.topic_configs import TOPIC_CONFIGS, is_metadata_version
from kcore.node.zk.admin.configs import validate_topic_configs
from kcore.protocol_errors import ApiException, Errors

RECORDED = cases.load("topic_configs_3.9.1")
TYPES = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "LONG": 5, "DOUBLE": 6, "LIST": 7}


@pytest.mark.recorded
def test_the_table_is_kafkas() -> None:
    definitions = [each for each in RECORDED if each["kind"] == "definition"]
    ours = [(each.name, each.kind, each.default, each.server) for each in TOPIC_CONFIGS.values()]
    assert ours == [(each["name"], TYPES[each["type"]], each["default"], each["serverSynonym"]) for each in definitions]


@pytest.mark.recorded
@pytest.mark.parametrize(
    "case",
    [each for each in RECORDED if each["kind"] == "validation"],
    ids=lambda case: f"{case['name']}={case['value']}",
)
def test_values_are_read_and_refused_as_kafka_does(case: dict[str, Any]) -> None:
    configs = {case["name"]: case["value"]}
    if case["valid"]:
        assert validate_topic_configs(configs)[case["name"]] == case["read"]
        return
    with pytest.raises(ApiException) as refused:
        validate_topic_configs(configs)
    assert (refused.value.error, str(refused.value)) == (Errors.INVALID_CONFIG, case["message"])


def test_defaults_are_valid_as_they_are() -> None:
    assert validate_topic_configs({}) == {name: each.default for name, each in TOPIC_CONFIGS.items()}


def test_lags_that_contradict_each_other() -> None:
    with pytest.raises(ApiException, match=r"min\.compaction\.lag\.ms \(9\) > max\.compaction\.lag\.ms \(5\)"):
        validate_topic_configs({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("text", "known"),
    [("0.8.0", True), ("2.0", True), ("2.0-IV1", True), ("2.0-IV2", False), ("", False), ("2", False)],
)
def test_versions_of_the_protocol(text: str, known: bool) -> None:
    assert is_metadata_version(text) == known
