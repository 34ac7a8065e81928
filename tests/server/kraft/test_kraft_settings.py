"""server.properties of a KRaft controller: Kafka's names, and a one-line error for invalid settings."""

from pathlib import Path

import pytest

from kcore.raft.membership.replicas import Address
from kcore.releases.known import RELEASES
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.properties.values import SettingsError

MINIMAL = {
    "process.roles": "controller",
    "node.id": "7",
    "controller.quorum.bootstrap.servers": "a:1,b:2",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9093",
}


def test_what_a_controller_needs_and_no_more() -> None:
    settings = settings_of(MINIMAL)
    assert (settings.node_id, settings.listener, settings.listen) == (7, "CONTROLLER", Address("", 9093))
    assert settings.advertised == Address("localhost", 9093)
    assert settings.bootstrap == (Address("a", 1), Address("b", 2)) and settings.voters == ()
    config = settings.controller_config("a cluster", "4.3.1", frozenset())
    assert (config.broker_session_timeout_ms, config.metadata_max_idle_interval_ms) == (9000, 500)


def test_settings_of_raft_and_of_the_controller_go_where_they_belong() -> None:
    more = {
        "controller.quorum.fetch.timeout.ms": "4000",
        "metadata.max.retention.bytes": "-1",
        "broker.session.timeout.ms": "6000",
        "controller.quota.window.num": "3",
        "controller.quota.window.size.seconds": "2",
        "quota.window.num": "5",
        "quota.window.size.seconds": "7",
        "auto.leader.rebalance.enable": "FALSE",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:a; User:CN=b,O=c ;",
        "min.insync.replicas": "2",
    }
    settings = settings_of(MINIMAL | more)
    assert settings.raft == {
        "append_linger_ms": None,
        "fetch_timeout_ms": 4000,
        "metadata_max_retention_bytes": -1,
    }
    config = settings.controller_config("a cluster", "4.3.1", frozenset())
    assert (config.broker_session_timeout_ms, config.auto_leader_rebalance_enable) == (6000, False)
    assert (config.controller_quota_window_num, config.controller_quota_window_size_seconds) == (3, 2)
    assert (config.node.quota_window_num, config.node.quota_window_size_seconds) == (5, 7)
    assert config.node.has_authorizer and config.node.super_users == ("User:a", "User:CN=b,O=c")
    assert config.node.static_configs["min.insync.replicas"] == "2"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("no.such.setting", "1", "no.such.setting: Kafka 4.4.0 has no such setting"),
        ("zookeeper.connect", "x:1", "zookeeper.connect: Kafka 4.4.0 has no such setting"),
        ("process.roles", "broker,controller", "kcore runs only a controller"),
        ("node.id", "-1", "give a number from 0"),
        ("broker.session.timeout.ms", "soon", "give a number from 1"),
        ("controller.quota.window.num", "0", "controller.quota.window.num=0: give a number from 1"),
        ("controller.quota.window.num", "many", "give a number from 1"),
        ("controller.quota.window.size.seconds", "-1", "give a number from 1"),
        ("controller.quota.window.size.seconds", "1.5", "give a number from 1"),
        ("quota.window.num", "0", "give a number from 1"),
        ("quota.window.size.seconds", "1.5", "give a number from 1"),
        ("client.quota.callback.class", "com.example.Mine", "kcore runs no classes of Java"),
        ("auto.leader.rebalance.enable", "yes", "give true or false"),
        ("controller.quorum.voters", "7@a:1", "give either"),
        ("controller.quorum.bootstrap.servers", "a", "give HOST:PORT"),
        ("controller.listener.names", "", "controller.listener.names=: give a value"),
        ("listeners", "PLAINTEXT://:1", "CONTROLLER is missing"),
        ("listeners", "CONTROLLER://:70000", "give NAME://HOST:PORT"),
        ("listeners", "CONTROLLER://:1,SECURE://:2", "kcore has only CONTROLLER"),
        ("controller.listener.names", "CONTROLLER,SECURE", "kcore has one listener"),
        ("create.topic.policy.class.name", "com.example.Mine", "kcore runs no classes of Java"),
        (
            "authorizer.class.name",
            "com.example.Mine",
            "has only org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings_of(MINIMAL | {name: value})
    assert expected in str(raised.value) and "\n" not in str(raised.value)


def test_a_listener_may_have_any_name_that_is_none_of_a_protocol() -> None:
    given = {"controller.listener.names": "MINE", "listeners": "MINE://a:1"}
    assert settings_of(MINIMAL | given).listener == "MINE"
    assert settings_of(MINIMAL | given | {"listener.security.protocol.map": "MINE:PLAINTEXT"}).listener == "MINE"


def test_others_get_the_advertised_address() -> None:
    for given, address in (("CONTROLLER://far:5", Address("far", 5)), ("CONTROLLER://:5", Address("localhost", 5))):
        settings = settings_of(MINIMAL | {"advertised.listeners": given})
        assert (settings.listen, settings.advertised) == (Address("", 9093), address)


def test_where_the_metadata_log_is() -> None:
    for given, folder in (
        ({}, "/tmp/kafka-logs"),
        ({"log.dir": "/a"}, "/a"),
        ({"log.dir": "/a", "log.dirs": " /b , /c"}, "/b"),
        ({"log.dir": "/a", "log.dirs": "/b,/c", "metadata.log.dir": "/d"}, "/d"),
    ):
        assert settings_of(MINIMAL | given).directory == Path(folder)


def test_the_config_is_of_the_release_and_the_way_that_were_asked_for() -> None:
    for release in ("3.9.1", "4.3.1"):
        config = settings_of(MINIMAL).controller_config("a cluster", release, frozenset({"record-limits"}))
        assert (config.node.release, config.node.supported_features) == (release, RELEASES[release].supported_features)
        assert (config.kafka_way, config.node.cluster_id, config.node.node_id) == ({"record-limits"}, "a cluster", 7)


def test_a_controller_has_an_id() -> None:
    with pytest.raises(SettingsError, match=r"node\.id is missing"):
        settings_of({key: value for key, value in MINIMAL.items() if key != "node.id"})


def test_others_get_a_static_voters_address_from_the_voters() -> None:
    given = {key: value for key, value in MINIMAL.items() if "bootstrap" not in key}
    given["controller.quorum.voters"] = "7@a:1,8@b:2"
    for host, address in (("", Address("a", 1)), ("0.0.0.0", Address("a", 1)), ("c", Address("c", 9093))):
        settings = settings_of(given | {"listeners": f"CONTROLLER://{host}:9093"})
        assert (settings.listen.port, settings.advertised) == (9093, address)
    with pytest.raises(SettingsError, match=r"node\.id 9 is not among them"):
        settings_of(given | {"node.id": "9"})


def test_static_voters() -> None:
    given = {key: value for key, value in MINIMAL.items() if "bootstrap" not in key}
    settings = settings_of(given | {"controller.quorum.voters": "7@a:1,8@[::1]:2"})
    assert [(each.key.id, each.endpoints["CONTROLLER"]) for each in settings.voters] == [
        (7, Address("a", 1)),
        (8, Address("::1", 2)),
    ]


@pytest.mark.parametrize(
    ("voters", "told"),
    [
        ("7@a:1,7@b:2", "give ID@HOST:PORT,..., each id once"),
        ("7@a:1,8@b", "give ID@HOST:PORT,..., each id once"),
        ("7@a:1,8@b:70000", "port 70000 is not in"),
        ("", "give either controller.quorum.voters or controller.quorum.bootstrap.servers"),
    ],
)
def test_static_voters_that_cannot_be_are_reported(voters: str, told: str) -> None:
    given = {key: value for key, value in MINIMAL.items() if "bootstrap" not in key}
    with pytest.raises(SettingsError, match=told):
        settings_of(given | {"controller.quorum.voters": voters})


@pytest.mark.parametrize(("given", "allows"), [(None, False), ("false", False), ("TRUE", True)])
def test_a_resource_without_acls_is_for_everyone_only_if_the_setting_says_so(given: str | None, allows: bool) -> None:
    more = {} if given is None else {"allow.everyone.if.no.acl.found": given}
    config = settings_of(MINIMAL | more).controller_config("a cluster", "4.3.1", frozenset())
    assert config.node.allow_everyone_if_no_acl_found is allows
