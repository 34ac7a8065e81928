"""`kcore controller zk`: its errors. tests/server and tests/oracle test a running controller."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.measure.processes.local_process import free_ports
from kcore.zookeeper.connect_string import check_connect_string


def controller(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["controller", "zk", *arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--listen", "9090"), "--listen '9090': give HOST:PORT"),
        (("--listen", "here:99999"), "--listen 'here:99999': port 99999 is not in 0..65535"),
        (("--advertise", "here"), "--advertise 'here': give HOST:PORT"),
        (("--inter-broker-protocol", "4.0"), "--inter-broker-protocol"),
        (("--config", "num.partitions=many"), "--config num.partitions=many: give a number from 1"),
        (("--config", "delete.topic.enable=yes"), "--config delete.topic.enable=yes: give true or false"),
        (("--config", "min.insync.replicas=0"), "--config min.insync.replicas=0: give a number from 1"),
        (
            ("--config", "controller.quota.window.num=-1"),
            "controller.quota.window.num=-1: give a number",
        ),
        (("--config", "no.such=1"), "num.partitions (int)"),
        (("--config", "broker.id=3"), "--config broker.id=3: it takes NAME=VALUE"),
    ],
)
def test_invalid_options_are_refused_with_valid_ones(arguments: tuple[str, ...], expected: str) -> None:
    result = controller(*arguments)
    assert result.exit_code == 2
    assert expected in result.output


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        (None, (), "No such file"),
        ("inter.broker.listener.name=A", (), "give A one of PLAINTEXT"),
        ("sasl.mechanism.inter.broker.protocol=GSSAPI\nsecurity.inter.broker.protocol=SASL_PLAINTEXT", (), "GSSAPI"),
        ("broker.id=7", ("--listener-name", "A"), "--listener-name A: "),
        ("authorizer.class.name=a.B", (), "authorizer.class.name=a.B"),
    ],
)
def test_invalid_listener_settings_are_one_line(
    lines: str | None, options: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "server.properties"
    if lines is not None:
        path.write_text(lines)
    result = controller("--security", str(path), *options)
    assert result.exit_code == 2
    assert expected in result.output and len(result.output.strip().splitlines()) == 1


def test_no_zookeeper() -> None:
    [port] = free_ports(1)
    result = controller("--zookeeper", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--session-timeout", "300")
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.output


@pytest.mark.parametrize("command", ["controller", "broker"])
@pytest.mark.parametrize(
    ("zookeeper", "expected"),
    [
        ("nonsense:port", "'nonsense:port' is not HOST:PORT"),
        ("", "the value is empty"),
        ("host:0", "'host:0' is not HOST:PORT"),
        ("host:99999", "'host:99999' is not HOST:PORT"),
        ("here:1,:2181", "':2181' is not HOST:PORT"),
        ("a b", "'a b' is not HOST:PORT"),
        ("host:2181//a", "'//a' is not the path of a znode"),
        ("host:2181/a/", "'/a/' is not the path of a znode"),
    ],
)
def test_a_zookeeper_that_is_none_is_one_line(command: str, zookeeper: str, expected: str, tmp_path: Path) -> None:
    own = ("--broker-id", "1", "--log-dir", str(tmp_path)) if command == "broker" else ()
    result = CliRunner().invoke(app, [command, "zk", "--zookeeper", zookeeper, "--listen", "127.0.0.1:0", *own])
    assert result.exit_code == 2, result.exception
    assert expected in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["a", "a:1", "a:1,b:2,10.0.0.1:3", "[::1]:2181/x/y", "a:1/", " a:1 , b:2 "])
def test_what_a_zookeeper_may_be(text: str) -> None:
    check_connect_string(text)


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = controller("--listen", address)
    assert result.exit_code == 2
    assert "in use" in result.output
