"""The skeleton of a release's module."""

import ast

from follow_release.skeleton import module_name, skeleton
from follow_release.small_facts import OLD, new

RELEASE = """RELEASE: Final[Release] = replace(
    _OLDER,
    name="2.0.0",
    version_names=(*_OLDER.version_names, "2.0-IV0"),
    default_version="1.1-IV0",
    changed_metadata=_OLDER.changed_metadata | {"2.0-IV0"},
    features={
        **_OLDER.features,
        "group.version": (0, 2),
    },
    features_since={
        **_OLDER.features_since,
        "group.version": ["1.0-IV0", "1.0-IV0"],
    },
    known_features={
        **_OLDER.known_features,
        "group.version": 2,
    },
    apis={
        **{name: each for name, each in _OLDER.apis.items() if name not in {"Old"}},
        "Fetch": (0, 2),
        "New": (0, 0),
    },
    topic_configs={**_OLDER.topic_configs, **by_name(_TOPIC_CONFIGS)},
)
"""


def test_the_facts_that_changed_are_written() -> None:
    text = skeleton("2.0.0", "1.0.0", OLD, new(), ["org.apache.kafka.controller.QuorumController", "org.Other"])
    ast.parse(text)
    assert text.startswith('"""Kafka 2.0.0: what it changed since 1.0.0."""\n')
    assert "from kcore.releases import k1_0_0\n" in text
    assert text.endswith(RELEASE)
    assert '    TopicConfig("segment.ms", ConfigType.LONG, "60", 0),\n' in text
    assert "# New settings of server.properties: come.\n" in text
    assert "# Removed settings of server.properties: gone.\n" in text
    assert "# New errors: GONE.\n" in text
    assert "# Classes with other bytecode, to be read for rules: QuorumController.\n" in text


def test_a_release_without_changes_is_short() -> None:
    text = skeleton("1.0.1", "1.0.0", OLD, OLD, [])
    assert text.endswith('RELEASE: Final[Release] = replace(\n    _OLDER,\n    name="1.0.1",\n)\n')
    assert "TopicConfig" not in text


def test_no_line_is_too_long() -> None:
    code = [f"org.apache.kafka.controller.ControlManager{k}" for k in range(40)]
    assert max(map(len, skeleton("2.0.0", "1.0.0", OLD, new(), code).splitlines())) <= 120


def test_the_modules_of_releases_are_named_alike() -> None:
    assert module_name("4.3.1") == "k4_3_1"
