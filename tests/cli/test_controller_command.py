"""`kcore controller zk`: what it refuses. What it does is told by tests/server and tests/oracle."""

import socket

import pytest
from typer.testing import CliRunner, Result

from kcore.cli import app
from kcore.hollow.kafka import free_ports


def controller(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["controller", "zk", *arguments])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--listen", "9090"), "--listen '9090': give HOST:PORT"),
        (("--listen", "here:99999"), "--listen 'here:99999': port 99999 is not in 0..65535"),
        (("--advertise", "here"), "--advertise 'here': give HOST:PORT"),
        (("--inter-broker-protocol", "4.0"), "--inter-broker-protocol"),
        (("--config", "num.partitions=many"), "num.partitions (int)"),
        (("--config", "delete.topic.enable=yes"), "delete.topic.enable (bool)"),
        (("--config", "broker.id=3"), "--config broker.id=3: it takes NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_told_with_what_would(arguments: tuple[str, ...], told: str) -> None:
    result = controller(*arguments)
    assert result.exit_code == 2
    assert told in result.output


def test_no_zookeeper() -> None:
    [port] = free_ports(1)
    result = controller("--zookeeper", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--session-timeout", "300")
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.output


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = controller("--listen", address)
    assert result.exit_code == 2
    assert "in use" in result.output
