"""Names, types, defaults and valid values of settings are those of Kafka's ConfigDefs."""

from collections.abc import Callable

import pytest

from config_facts import ConfigFact, config_facts, dynamic_names
from kcore.node.kraft.config_descriptions import is_dynamic, type_of
from kcore.node.kraft.config_kinds import METRICS_CONFIGS, check_client_metrics, group_values
from kcore.node.topic_configs import TOPIC_CONFIGS_OF, is_valid
from kcore.protocol_errors import ApiException
from kcore.releases.broker_settings import DYNAMIC, TYPES
from kcore.releases.known import DEFAULT_RELEASE
from kcore.releases.known import RELEASES as KNOWN
from kcore.schema.configs import ConfigType
from kcore.server.kraft_broker.kraft_broker_settings import KraftBrokerSettings, broker_settings_of
from kcore.server.kraft_controller.kraft_controller_settings import KraftSettings, settings_of
from kcore.server.properties.definitions import DEFINITIONS, KNOWN_NAMES, PREFIXES, STRICTER
from kcore.server.properties.values import SettingsError, value_of
from kcore.storage.log.segmented_log import Settings

RELEASES = ("3.9.1", "4.3.1", "4.4.0")
CLASSES = "CLASS"  # Java's class loader decides.
COMMON = {"node.id": "7", "controller.quorum.bootstrap.servers": "a:1", "controller.listener.names": "CONTROLLER"}
CONTROLLER = COMMON | {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
BROKER = COMMON | {"process.roles": "broker"}


def taken_otherwise(fact: ConfigFact, takes: Callable[[str], bool]) -> list[str]:
    """The probes, and the numbers at the bounds, about which kcore and Kafka differ."""
    expected = dict(fact.takes)
    if fact.least is not None and fact.most is not None:
        expected |= {str(fact.least): True, str(fact.least - 1): False, str(fact.most): True, str(fact.most + 1): False}
    return [text for text, is_taken in expected.items() if takes(text) != is_taken]


@pytest.mark.parametrize("release", RELEASES)
def test_settings_of_topics_are_those_of_the_jars(release: str) -> None:
    facts, known = config_facts(release, "topic"), TOPIC_CONFIGS_OF[release]
    assert facts.keys() == known.keys()
    for name, fact in facts.items():
        assert (ConfigType(known[name].kind).name, known[name].default) == (fact.kind, fact.default), name
        assert taken_otherwise(fact, lambda text, name=name: is_valid(known[name], text)) == [], name  # type: ignore[misc]


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_settings_of_groups_are_those_of_the_jars(release: str) -> None:
    facts, known = config_facts(release, "group"), KNOWN[release].group_configs

    def takes(name: str, text: str) -> bool:
        try:
            group_values(release, {name: text}, {})
        except ApiException:
            return False
        return True

    assert facts.keys() == known.keys()
    for name, fact in facts.items():
        assert (ConfigType(known[name].kind).name, known[name].default) == (fact.kind, fact.default), name
        assert taken_otherwise(fact, lambda text, name=name: takes(name, text)) == [], name  # type: ignore[misc]


@pytest.mark.parametrize("release", ["4.3.1", "4.4.0"])
def test_settings_of_client_metrics_are_those_of_the_jars(release: str) -> None:
    facts = config_facts(release, "metrics")
    assert facts.keys() == METRICS_CONFIGS.keys()
    for name, fact in facts.items():
        known = METRICS_CONFIGS[name]
        assert (ConfigType(known.kind).name, known.default) == (fact.kind, fact.default), name
    for text, is_taken in facts["metrics"].takes.items():
        if is_taken:
            check_client_metrics(release, "a subscription", {"metrics": text})
        else:
            with pytest.raises(ApiException):
                check_client_metrics(release, "a subscription", {"metrics": text})


@pytest.mark.parametrize("release", KNOWN)
def test_the_names_in_server_properties_are_those_of_the_release(release: str) -> None:
    names = config_facts(release, "server").keys()
    assert KNOWN[release].setting_names == names
    for name in sorted({name for each in KNOWN.values() for name in each.setting_names}):
        if name not in names and not name.startswith(PREFIXES):
            with pytest.raises(SettingsError) as refused:
                settings_of(CONTROLLER | {name: ""}, release)
            assert str(refused.value) == f"{name}: Kafka {release} has no such setting"


@pytest.mark.parametrize("of", [settings_of, broker_settings_of])
def test_a_setting_that_a_later_release_removed_is_known_in_its_own(
    of: Callable[[dict[str, str], str], object],
) -> None:
    role = CONTROLLER if of is settings_of else BROKER
    given = role | {"eligible.leader.replicas.enable": "true"}
    of(given, "3.9.1")
    with pytest.raises(SettingsError, match=r"Kafka 4\.4\.0 has no such setting"):
        of(given, "4.4.0")
    with pytest.raises(SettingsError, match=r"zookeeper\.connect: kcore's KRaft controllers and brokers do not use"):
        of(role | {"zookeeper.connect": "x:1"}, "3.9.1")


def test_names_types_and_defaults_of_nodes_are_those_of_the_jars() -> None:
    for release in RELEASES:
        facts = config_facts(release, "server")
        moved = {"group.share.max.size"} if release == "3.9.1" else set()  # SHORT in 3.9.1, for no group that it has.
        assert [
            name
            for name, fact in facts.items()
            if name not in moved and ConfigType(type_of(release, name)).name != fact.kind
        ] == []
        lists = {name: fact.default for name, fact in facts.items() if fact.kind == "LIST"}
        assert lists == dict(KNOWN[release].broker_lists)
    facts = config_facts(DEFAULT_RELEASE, "server")
    assert facts.keys() == KNOWN_NAMES == DEFINITIONS.keys()
    assert config_facts("4.3.1", "server").items() <= facts.items()
    for release in ("4.3.1", "4.4.0"):
        facts, defaults = config_facts(release, "server"), KNOWN[release].broker_defaults
        assert {name: value for name, value in defaults.items() if (value or "") != facts[name].default} == {}
        assert TYPES.keys() >= facts.keys()
    added = config_facts("4.4.0", "server").keys() - config_facts("4.3.1", "server").keys()
    described = KNOWN["4.4.0"].broker_defaults.keys() - KNOWN["4.3.1"].broker_defaults.keys()
    assert (len(added), len(described)) == (19, 10), "9 are internal"


def test_settings_that_change_at_run_time_are_those_of_the_jars() -> None:
    newer = dynamic_names("4.3.1")
    older = {"log.message.timestamp.difference.max.ms", "log.message.downconversion.enable"}
    assert {name for name in DYNAMIC if is_dynamic("4.3.1", name)} == newer | older
    assert dynamic_names("4.4.0") - newer == KNOWN["4.4.0"].dynamic_broker_configs
    assert all(is_dynamic("4.4.0", name) for name in dynamic_names("4.4.0"))
    assert not any(is_dynamic("4.3.1", name) for name in dynamic_names("4.4.0") - newer)
    assert dynamic_names("3.9.1") <= {name for name in DYNAMIC if is_dynamic("3.9.1", name)}


def is_value(name: str, text: str) -> bool:
    try:
        value_of(name, text)
    except SettingsError:
        return False
    return True


def test_values_of_nodes_are_those_that_kafka_takes() -> None:
    for name, fact in config_facts(DEFAULT_RELEASE, "server").items():
        if fact.kind == CLASSES or name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
            continue
        differing = taken_otherwise(fact, lambda text, name=name: is_value(name, text))  # type: ignore[misc]
        if name not in STRICTER:
            assert differing == [], name
        else:  # kcore refuses more, and nothing that would work.
            assert differing != [], f"{name}: kcore's bounds are Kafka's"
            least, most = STRICTER[name]
            assert all(fact.takes.get(text, True) and not is_value(name, text) for text in differing), name
            assert is_value(name, str(least)) and (most is None or is_value(name, str(most))), name


@pytest.mark.parametrize("role", ["controller", "broker"])
def test_a_node_does_not_start_with_a_value_that_kafka_refuses(role: str) -> None:
    """For every setting, whether the node reads it or not."""
    read, least = (settings_of, CONTROLLER) if role == "controller" else (broker_settings_of, BROKER)
    for name, fact in config_facts(DEFAULT_RELEASE, "server").items():
        if fact.kind == CLASSES or name in COMMON:
            continue
        for text, is_taken in fact.takes.items():
            if not is_taken:
                with pytest.raises(SettingsError) as refused:
                    read(least | {name: text})  # type: ignore[operator]
                assert str(refused.value).startswith((name, "give")), (name, text)


def metadata_log_of(settings: KraftSettings | KraftBrokerSettings) -> Settings:
    return settings.quorum.metadata_log if isinstance(settings, KraftBrokerSettings) else settings.metadata_log


def test_a_segment_of_the_metadata_log_has_eight_mebibytes_at_least() -> None:
    for read, least in ((settings_of, CONTROLLER), (broker_settings_of, BROKER)):
        for text in ("1048576", "8388607"):
            with pytest.raises(
                SettingsError, match=f"metadata.log.segment.bytes={text}: give a number from 8,388,608 to"
            ):
                read(least | {"metadata.log.segment.bytes": text})  # type: ignore[operator]
        given = {"metadata.log.segment.bytes": "8388608", "metadata.log.segment.ms": "60000"}
        log = metadata_log_of(read(least | given))  # type: ignore[operator]
        assert (log.segment_bytes, log.segment_ms) == (8_388_608, 60_000)
        of_tests = metadata_log_of(read(least | given | {"internal.metadata.log.segment.bytes": "1024"}))  # type: ignore[operator]
        assert of_tests.segment_bytes == 1024


def test_a_listeners_own_settings_are_checked_too() -> None:
    with pytest.raises(SettingsError, match=r"listener.name.controller.max.connections=-1: give a number from 0"):
        settings_of(CONTROLLER | {"listener.name.controller.max.connections": "-1"})
