"""server.properties: the limits for a listener's connections."""

import pytest

from kcore.net.limits.connection_limits import Limits
from kcore.server.properties.limits import limits_of
from kcore.server.properties.values import SettingsError

DEFAULT = Limits(connections=7)


def test_what_is_not_given_stays() -> None:
    assert limits_of({}, "CONTROLLER", DEFAULT) == DEFAULT


def test_all_of_it() -> None:
    given = {
        "max.connections": "100",
        "listener.name.controller.max.connections": "50",
        "listener.name.other.max.connections": "1",
        "max.connection.creation.rate": "5",
        "listener.name.controller.max.connection.creation.rate": "10",
        "max.connections.per.ip": "20",
        "max.connections.per.ip.overrides": "127.0.0.1:200, localhost:3,[::1]:4",
        "connections.max.idle.ms": "1500",
        "socket.request.max.bytes": "1000",
        "queued.max.request.bytes": "2000",
    }
    assert limits_of(given, "CONTROLLER", DEFAULT) == Limits(
        connections=50,
        connections_a_second=5,
        connections_per_address=20,
        connections_of_address={"127.0.0.1": 3, "::1": 4},
        idle_s=1.5,
        frame_bytes=1000,
        received_bytes=2000,
    )
    unbounded = {"connections.max.idle.ms": "-1", "queued.max.request.bytes": "-1"}
    found = limits_of(unbounded, "CONTROLLER", DEFAULT)
    assert found.idle_s > 10**8 and found.received_bytes == DEFAULT.received_bytes
    least = limits_of({"connections.max.idle.ms": "0", "queued.max.request.bytes": "1"}, "CONTROLLER", DEFAULT)
    assert (least.idle_s, least.received_bytes) == (0, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max.connections": "many"}, "max.connections=many"),
        ({"max.connections.per.ip": "-1"}, "max.connections.per.ip=-1"),
        ({"max.connections.per.ip": "0"}, "only with max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, "give HOST:NUMBER"),
        ({"max.connections.per.ip.overrides": "127.0.0.1:x"}, "max.connections.per.ip.overrides=x"),
        ({"listener.name.a.max.connection.creation.rate": "-5"}, "listener.name.a.max.connection.creation.rate=-5"),
        ({"socket.request.max.bytes": "0"}, "socket.request.max.bytes=0"),
    ],
)
def test_what_cannot_be(given: dict[str, str], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        limits_of(given, "A", DEFAULT)
