"""`--secure` and `--command-config`: the cells of a plan, the settings that a run makes, and the report's figures."""

import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.errors import PlanError, TargetError
from kcore.measure.hollow.fleet import Fleet, Options
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.hollow.secured import certificates
from kcore.measure.processes import controller_quorum
from kcore.measure.processes.target import Target
from kcore.measure.storm import run_storm as run
from kcore.measure.storm.report_rows import Row, row_of
from kcore.measure.storm.report_security import security_costs
from kcore.measure.storm.report_table import COSTS, cells_of, findings
from kcore.measure.storm.result import ScenarioResult
from kcore.measure.storm.run_security import SECURE, RunSecurity
from kcore.measure.storm.storm_plan import Cell, StormPlan
from kcore.measure.storm.targets import started
from net.loops import story


def row(target: Target, scenario: str = "create", **fields: Any) -> Row:
    return row_of(Cell(target, 20, 10, 0), ScenarioResult(scenario, 20, 10, 1, last_ms=5.0, **fields), 1)


PLAIN = Target.parse("kcore-kraft")
SECURED = PLAIN.secured("SSL")


def test_secure_runs_each_started_quorum_in_plaintext_and_with_the_protocol():
    plan = StormPlan(targets=("kcore-kraft", "here:9093"), secure="SASL_SSL")
    plan.check()
    found = [(cell.target.name, cell.target.security) for cell in plan.cells()]
    assert found == [
        ("kcore-kraft", "PLAINTEXT"),
        ("kcore-kraft+SASL_SSL", "SASL_SSL"),
        ("here:9093", "PLAINTEXT"),
    ]


def test_the_protocol_of_running_controllers_is_in_the_file(tmp_path: Path):
    file = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="secret";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    plan = StormPlan(targets=("here:9093", "kcore-kraft"), command_config=str(file))
    plan.check()
    assert [cell.target.security for cell in plan.cells()] == ["SASL_PLAINTEXT", "PLAINTEXT"]
    assert "secret" not in plan.to_toml() + repr(plan) and f'command_config = "{file}"' in plan.to_toml()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--secure", "--target", "here:9093"], "--secure is for KRaft controllers that the run starts"),
        (["--secure", "--target", "kcore-zk"], "--secure is for KRaft controllers that the run starts"),
        (["--secure-with", "SSL", "--target", "kcore-kraft"], "--secure-with SSL is the protocol of --secure"),
        (["--secure", "--secure-with", "TLS"], "--secure-with TLS is not one of SSL, SASL_PLAINTEXT, SASL_SSL"),
        (
            ["--command-config", "FILE", "--target", "kcore-kraft"],
            "--command-config is for controllers that run already",
        ),
        (["--command-config", "FILE", "--target", "here:9093"], "security.protocol=TLS: give one of PLAINTEXT"),
        (["--command-config", "MISSING", "--target", "here:9093"], "--command-config MISSING: "),
    ],
)
def test_wrong_options_are_one_line(arguments: list[str], said: str, tmp_path: Path):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n" if "here:9093" in arguments else "")
    result = CliRunner().invoke(app, ["storm", *(str(file) if each == "FILE" else each for each in arguments)])
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_the_report_names_the_protocol_and_says_what_it_costs_both_sides():
    rows = [
        row(PLAIN, controller_cpu_s=1.0, own_cpu_s=0.5),
        row(PLAIN, "isr-storm", controller_cpu_s=3.0, own_cpu_s=0.5),
        row(PLAIN, "register", controller_cpu_s=9.0, own_cpu_s=0.5),
        row(SECURED, controller_cpu_s=2.0, own_cpu_s=2.0),
        row(SECURED, "isr-storm", controller_cpu_s=4.0, own_cpu_s=1.0),
        row(SECURED, "register", controller_cpu_s=99.0, own_cpu_s=99.0, valid=False),
    ]
    head, lines = cells_of(rows, COSTS)
    assert {cells[head.index("security")] for cells, _ in lines} == {"PLAINTEXT", "SSL"}
    cost = (
        "kcore-kraft+SSL, compared with plaintext over 2 scenarios: the controllers take 1.50 times the CPU time "
        "(6.00 s, not 4.00 s); the hollow brokers take 3.00 times the CPU time (3.00 s, not 1.00 s)"
    )
    assert security_costs(rows) == [cost] and cost in findings(rows)


def test_rows_without_a_protocol_are_plaintext_rows():
    head, _ = cells_of([row(PLAIN)], COSTS)
    assert "security" not in head and security_costs([row(PLAIN) | {"security": None}]) == []


def test_a_run_makes_other_secrets_each_time_and_shows_none():
    first, second = RunSecurity.made("SASL_SSL"), RunSecurity.made("SASL_SSL")
    assert first.properties != second.properties and first.users != second.users
    assert first.client.own_sasl is not None and first.client.own_sasl.password in first.users[0]
    assert first.client.own_sasl.password not in repr(first) and "PRIVATE KEY" not in repr(first)


def test_the_format_command_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine can read command lines."""
    commands: list[list[str]] = []
    run_command = subprocess.run

    def recorded(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return run_command(command, **options)

    monkeypatch.setattr(controller_quorum.subprocess, "run", recorded)
    monkeypatch.setattr(controller_quorum.Node, "start", lambda self, wait: None)
    monkeypatch.setattr(controller_quorum.Node, "await_ready", lambda self: None)
    made = RunSecurity.made("SASL_PLAINTEXT")
    assert made.client.own_sasl is not None
    with started(PLAIN.secured("SASL_PLAINTEXT"), 1, "1g", (), made):
        [command] = commands
        assert "--add-scram" in command and made.client.own_sasl.password not in " ".join(command)


def test_keys_that_hollow_brokers_cannot_use_end_the_check_of_targets(tmp_path: Path) -> None:
    """OpenSSL reads this form of a certificate, and the loop does not."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(certificates("a")[0].replace("CERTIFICATE", "TRUSTED CERTIFICATE"))
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n")
    with pytest.raises(TargetError, match=r"TLS of the hollow brokers: .*trusted certificates"):
        run.check_targets(StormPlan(targets=("here:9093",), command_config=str(file)))


@pytest.mark.long
@pytest.mark.parametrize("protocol", SECURE)
@story
async def test_hollow_brokers_of_a_run_under_three_controllers_of_kcore(protocol: str):
    made = RunSecurity.made(protocol)
    with started(PLAIN.secured(protocol), 3, "1g", (), made) as processes:
        assert processes is not None
        quorum = Quorum(processes.bootstrap, random=Random(1), security=made.client)
        await quorum.open()
        try:
            async with Fleet(quorum, random=Random(1), options=Options()) as fleet:
                brokers = [fleet.add(at + 1) for at in range(10)]
                await fleet.start(brokers)
                await fleet.unfenced(brokers, 120)
                assert fleet.errors == {}
        finally:
            await quorum.close()


def test_a_wrong_file_ends_the_check_of_targets(tmp_path: Path):
    with pytest.raises(PlanError, match="--command-config "):
        run.check_targets(StormPlan(targets=("here:9093",), command_config=str(tmp_path / "gone.properties")))
