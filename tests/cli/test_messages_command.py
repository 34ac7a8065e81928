"""`kcore messages`, and `kcore bench --list`."""

import json

import pytest
from typer.testing import CliRunner

import kcore
from kcore.cli.commands import app
from kcore.measure.workloads.catalog import WORKLOADS


def lines(*arguments: str, stdin: str | None = None) -> list[str]:
    done = CliRunner().invoke(app, list(arguments), input=stdin)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_all_messages_are_listed_and_those_with_a_text_or_an_api_key() -> None:
    head, *listed = lines("messages")
    assert head.split() == ["name", "type", "key", "versions"]
    assert {line.split()[0] for line in listed} == set(kcore.messages)
    assert {line.split()[0] for line in lines("messages", "telemetryreq")[1:]} == {"PushTelemetryRequest"}
    assert {json.loads(line)["name"] for line in lines("messages", "56", "--json")} == {
        "AlterPartitionRequest",
        "AlterPartitionResponse",
    }


def test_one_message_has_its_fields_and_json() -> None:
    shown = lines("messages", "controlledshutdownrequest")
    assert shown[0].startswith("ControlledShutdownRequest: ")
    assert "request: API key 7, versions 0-3, flexible 3+" in shown
    assert "brokerEpoch  int64  2+        [default -1, ignorable]" in shown
    assert "JSON of version 3, for `kcore encode ControlledShutdownRequest 3`:" in shown
    facts = json.loads(lines("messages", "FetchRequest", "--json", "--version", "12")[0])
    assert (facts["apiKey"], facts["versions"], facts["version"]) == (1, "0-18", 12)
    [topics] = [field for field in facts["fields"] if field["name"] == "topics"]
    assert topics["type"] == "[]FetchTopic" and topics["fields"][0]["name"] == "topic"
    assert facts["skeleton"]["topics"][0]["topic"] == ""


@pytest.mark.parametrize("options", [["FetchRequest", "13"], ["IncrementalAlterConfigsRequest", "2", "kip590"]])
def test_the_skeleton_goes_through_a_pipe_into_encode(options: list[str]) -> None:
    name, version, *dialect = options
    given = ["--dialect", *dialect] if dialect else []
    blank = "\n".join(lines("messages", name, "--version", version, "--skeleton", *given))
    [encoded] = lines("encode", name, version, *given, stdin=blank)
    assert lines("decode", name, version, f"0x{encoded}", *given)[0].startswith("{")


def test_the_workloads_of_plans_are_listed_with_their_operations() -> None:
    shown = "\n".join(lines("bench", "--list"))
    listed = [json.loads(line) for line in lines("bench", "--list", "--json")]
    assert [each["workload"] for each in listed] == list(WORKLOADS)
    for each in listed:
        assert each["summary"] in shown
        for group in each["operations"]:
            assert f"{group['group']}: {'; '.join(group['actions'])}" in shown
    assert "broker fails: decide; replay; requests; all" in shown
