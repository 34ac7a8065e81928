"""`kcore broker zk`: its errors. tests/server and tests/oracle test a running broker."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.measure.processes.local_process import free_ports

MIGRATES = "zookeeper.metadata.migration.enable=true"
QUORUM = ("--config", "controller.listener.names=C", "--config", "controller.quorum.voters=3000@localhost:9093")


def broker(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["broker", "zk", "--broker-id", "7", "--log-dir", str(folder), *arguments])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--listen", "9092"), "--listen '9092': give HOST:PORT"),
        (("--advertise", "here"), "--advertise 'here': give HOST:PORT"),
        (("--inter-broker-protocol", "4.0"), "--inter-broker-protocol"),
        (("--config", "broker.id=3"), "--config broker.id=3: it takes NAME=NUMBER"),
        (("--config", "controller.listener.names=C"), "--config controller.listener.names=C: it takes NAME=NUMBER"),
        (("--config", "replica.lag.time.max.ms=0"), "--config replica.lag.time.max.ms=0: give a number from 1"),
        (("--config", "min.insync.replicas=2147483648"), "give a number from 1 to 2,147,483,647"),
        (("--config", "auto.create.topics.enable=1"), "--config auto.create.topics.enable=1: give true or false"),
        (("--config", "num.partitions=0"), "--config num.partitions=0: give a number from 1"),
        (("--config", MIGRATES), "--config controller.listener.names is missing"),
        ((*QUORUM, "--config", MIGRATES, "--inter-broker-protocol", "3.3"), "a migration needs 3.4-IV0 or newer"),
    ],
)
def test_invalid_options_are_refused_with_valid_ones(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    result = broker(tmp_path, *arguments)
    assert result.exit_code == 2
    assert expected in result.output


def test_no_zookeeper(tmp_path: Path) -> None:
    [port] = free_ports(1)
    here = ("--zookeeper", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--session-timeout", "300")
    result = broker(tmp_path, *here)
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.output
