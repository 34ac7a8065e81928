"""server.properties: a broker's listeners, and which of them brokers use among themselves."""

import pytest

from kcore.metadata.table.broker_table import Endpoint
from kcore.raft.membership.replicas import Address
from kcore.server.kraft_broker.kraft_broker_settings import broker_settings_of
from kcore.server.kraft_controller.kraft_controller_settings import settings_of
from kcore.server.properties.listeners import listeners_of
from kcore.server.properties.values import SettingsError, places_of

MAP = "listener.security.protocol.map"
TWO = {"listeners": "inner://a:1,OUTER://:2", MAP: "INNER:PLAINTEXT,outer:PLAINTEXT"}
NAME = "inter.broker.listener.name"


def test_names_are_in_capitals_and_endpoints_are_advertised() -> None:
    found = listeners_of(TWO | {NAME: "Inner"})
    assert found.inter_broker == "INNER" and found.of_brokers.listen == Address("a", 1)
    assert found.endpoints({"INNER": 1, "OUTER": 2}) == [
        Endpoint(1, "a", "INNER", 0),
        Endpoint(2, "localhost", "OUTER", 0),
    ]


def test_port_0_is_advertised_as_the_bound_port() -> None:
    found = listeners_of({"listeners": "PLAINTEXT://a:0"})
    assert found.endpoints({"PLAINTEXT": 4711}) == [Endpoint(4711, "a", "PLAINTEXT", 0)]


def test_connections_are_bounded_by_listener() -> None:
    found = listeners_of(TWO | {NAME: "INNER", "max.connections": "9", "listener.name.outer.max.connections": "7"})
    assert [each.limits.connections for each in found.each] == [9, 7]


def test_a_listener_that_is_not_advertised_is_served() -> None:
    found = listeners_of(TWO | {NAME: "INNER", "advertised.listeners": "INNER://b:3"})
    assert [each.name for each in found.each] == ["INNER", "OUTER"]
    assert found.endpoints({"INNER": 1, "OUTER": 2}) == [Endpoint(3, "b", "INNER", 0)]


def test_the_brokers_own_listener_is_named_or_that_of_a_protocol_or_the_only_one() -> None:
    two = {"listeners": "PLAINTEXT://:1,SASL_PLAINTEXT://:2"}
    sasl = {
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="p" user_b="p";'
        ),
    }
    assert listeners_of(two | sasl).inter_broker == "PLAINTEXT"
    assert listeners_of(two | sasl | {"security.inter.broker.protocol": "SASL_PLAINTEXT"}).inter_broker == (
        "SASL_PLAINTEXT"
    )
    assert listeners_of({"listeners": "MINE://:1", MAP: "MINE:PLAINTEXT"}).inter_broker == "MINE"
    with pytest.raises(SettingsError, match="PLAINTEXT: it is not among the listeners"):
        listeners_of(TWO)
    with pytest.raises(SettingsError, match="OTHER: give one of PLAINTEXT"):
        listeners_of(two | sasl | {"security.inter.broker.protocol": "OTHER"})


def test_a_broker_has_not_the_controllers_listener() -> None:
    given = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "a:1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
    }
    with pytest.raises(SettingsError, match="CONTROLLER is the controllers'"):
        broker_settings_of(given)
    settings = broker_settings_of(given | {"listeners": "PLAINTEXT://:1"})
    assert settings.controllers.outgoing() is None
    message = "listener.name.controller.plain.sasl.jaas.config is missing"
    with pytest.raises(SettingsError, match=message):
        broker_settings_of(
            given
            | {"listeners": "PLAINTEXT://:1", MAP: "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"}
            | {"sasl.mechanism.controller.protocol": "PLAIN"}
        )


def test_controllers_and_brokers_read_listeners_by_one_rule() -> None:
    common = {"node.id": "7", "controller.quorum.bootstrap.servers": "a:1", "controller.listener.names": "CONTROLLER"}

    def controller(name: str, value: str) -> object:
        given = {"process.roles": "controller", "listeners": "CONTROLLER://:9093"}
        return settings_of(common | given | {name: value})

    def broker(name: str, value: str) -> object:
        return broker_settings_of(common | {"process.roles": "broker", name: value})

    for name, value, said in (
        ("listeners", "{0}://:1,{0}://:2", "{0} is there twice"),
        ("listeners", "{0}://:1,{1}://:2,OTHER://:2", "each listener must have a different port"),
        ("listeners", "{0}://:65536", "give NAME://HOST:PORT"),
        ("listeners", "{0}:1", "give NAME://HOST:PORT"),
        ("advertised.listeners", "{0}://0.0.0.0:1", "nobody can connect to 0.0.0.0"),
        ("advertised.listeners", "{0}://a:1,{0}://b:1", "{0} is there twice"),
    ):
        for read, listener in ((controller, "CONTROLLER"), (broker, "PLAINTEXT")):
            with pytest.raises(SettingsError) as refused:
                read(name, value.format(listener, "SSL"))
            assert said.format(listener) in str(refused.value), (read, name, value)
    assert settings_of(common | {"process.roles": "controller", "listeners": "controller://:9093"}).listen.port == 9093


def test_listeners_may_be_advertised_at_one_port_of_several_hosts() -> None:
    """Only `listeners` need ports of their own (AbstractKafkaConfig.effectiveAdvertisedBrokerListeners)."""
    found = places_of("advertised.listeners", {"advertised.listeners": "A://a:9092,B://b:9092"})
    assert {name: (each.host, each.port) for name, each in found.items()} == {"A": ("a", 9092), "B": ("b", 9092)}
    with pytest.raises(SettingsError, match="each listener must have a different port"):
        places_of("listeners", {"listeners": "A://a:9092,B://b:9092"})
