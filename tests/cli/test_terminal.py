"""Names of peers and files on their way to the terminal: control characters are shown as escapes."""

import json
import logging
import re
import sys
import unicodedata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.control import Control
from rich.table import Table

from cli.invoking import kcore as command
from kcore.cli import commands
from kcore.cli import console as consoles
from kcore.cli.console import cell, wide_console
from kcore.cli.measure.top_view import view_of
from kcore.cli.servers import quorum_describe, quorum_tables
from kcore.cli.servers import server_process as processes
from kcore.errors import KcoreError
from kcore.measure.watch.frame import Broker, Frame, Partitions, Replica
from kcore.printable import printable, printable_json, printable_lines
from kcore.schema import PartitionRecord, RegisterBrokerRecord, TopicRecord
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData, Listener, Node, ReplicaState
from kcore.schema.metadata_records_security import DelegationTokenRecord
from kcore.server.quorum_node.describe import QuorumDescription
from kcore.storage.log.log_writer import LogWriter
from kcore.storage.tools.dump import compact
from kcore.types import Uuid
from kcore.wire.metadata_frames import encode_metadata_record
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

TIME_MS = 1_795_248_000_000
CONTROLS = "\x1b]0;title\x07\x9b2J\u202e\u2066\u200b\x7f\r\n\tkcore: all is well[red]not markup[/red]"
SOURCES = Path(consoles.__file__).parent


def is_clean(text: str) -> bool:
    """No controls except our own line feeds and tabs, no change of direction, no line that begins with a name."""
    unsafe = [each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    return {*unsafe} <= {"\n", "\t"} and not re.search(r"^\s*kcore: all is well", text, re.MULTILINE)


def test_all_controls_and_what_turns_text_are_escaped() -> None:
    every = [chr(k) for k in range(sys.maxunicode + 1)]
    wanted = {each for each in every if unicodedata.category(each) in ("Cc", "Zl", "Zp", "Cs")}
    wanted |= set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # Bidi_Control
    escaped = {each for each in every if printable(each) != each}
    assert wanted <= escaped and printable("".join(sorted(escaped))).isascii()
    assert {unicodedata.category(each) for each in escaped} - {"Cn"} == {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert {each for each in every if printable_lines(each) != each} == escaped - {"\n", "\t"}
    assert printable("Z\u00fcrich \u6771\u4eac \U0001f600") == "Z\u00fcrich \u6771\u4eac \U0001f600"


def test_json_stays_json() -> None:
    value = {CONTROLS: [CONTROLS, "\U000e0041", "Z\u00fcrich"]}
    text = compact(value)
    assert json.loads(text) == value and is_clean(text) and "Z\u00fcrich" in text
    assert json.loads(printable_json(json.dumps(CONTROLS))) == CONTROLS


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A metadata log whose names came from attackers."""
    who = f"User:{CONTROLS}"
    records = [
        encode_metadata_record(TopicRecord(name="t", topic_id=Uuid(bytes([1] * 16))), 0),
        encode_metadata_record(RegisterBrokerRecord(broker_id=1, broker_epoch=1, rack=CONTROLS, fenced=False), 1),
        encode_metadata_record(DelegationTokenRecord(owner=who, requester=who, renewers=[who], token_id=CONTROLS), 0),
    ]
    folder = tmp_path / "__cluster_metadata-0"
    headers = ((CONTROLS, b""),)
    rows = [Record(k, TIME_MS, CONTROLS.encode(), each, headers=headers) for k, each in enumerate(records)]
    with LogWriter(folder) as writer:
        writer.append(encode_records(rows, partition_leader_epoch=1))
    return folder


def shown(*arguments: object) -> str:
    result = command(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.mark.parametrize(
    ("how", "escaped"),
    [
        (("--deep",), r"\x1b]0;title\x07"),
        (("--records", "--deep"), r"\x1b]0;title\x07"),
        (("--metadata",), r"\u001b]0;title\u0007"),
    ],
)
def test_dump_shows_no_control_of_a_name(log: Path, how: tuple[str, ...], escaped: str) -> None:
    text = shown("dump", log, *how)
    assert is_clean(text) and escaped in text


@pytest.mark.parametrize("arguments", [("dump", "--json", "--records", "--metadata"), ("image", "--json")])
def test_json_of_a_command_is_json_without_controls(log: Path, arguments: tuple[str, ...]) -> None:
    text = shown(*arguments, log)
    assert is_clean(text)
    rows = [json.loads(line) for line in text.splitlines()]
    assert CONTROLS in json.dumps(rows, ensure_ascii=False) or any(CONTROLS in str(each) for each in values(rows))


def values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for inner in value.values() for each in values(inner)]
    return [each for inner in value for each in values(inner)] if isinstance(value, list) else [value]


def test_image_shows_no_control_and_no_markup_of_a_rack(log: Path) -> None:
    text = shown("image", log)
    joined = "".join(text.split())
    assert is_clean(text) and r"\x1b]0;title" in joined and "[red]" in joined.replace("\u2502", "")


def test_image_shows_no_control_of_a_topic_in_trouble(tmp_path: Path) -> None:
    folder, topic_id = tmp_path / "__cluster_metadata-0", Uuid(bytes([1] * 16))
    lost = PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[1], isr=[], leader=-1)
    records = [encode_metadata_record(each, 0) for each in (TopicRecord(name=CONTROLS, topic_id=topic_id), lost)]
    with LogWriter(folder) as writer:
        rows = [Record(k, TIME_MS, None, each) for k, each in enumerate(records)]
        writer.append(encode_records(rows, partition_leader_epoch=1))
    for options in ((), ("--offline",), ("--under-replicated",)):
        text = shown("image", folder, *options)
        assert is_clean(text) and r": \x1b]0;title\x07" in text


def test_dump_shows_no_control_of_a_folder(tmp_path: Path) -> None:
    path = tmp_path / CONTROLS.replace("/", "|")
    with LogWriter(path) as writer:
        writer.append(encode_records([Record(0, TIME_MS, None, b"")], partition_leader_epoch=1))
    text = shown("dump", path)
    assert is_clean(text) and r"\x1b]0;title\x07" in text


def test_diverge_shows_no_control_of_a_folder(tmp_path: Path) -> None:
    paths = [tmp_path / side / CONTROLS.replace("/", "|") for side in "ab"]
    for path in paths:
        with LogWriter(path) as writer:
            writer.append(encode_records([Record(0, TIME_MS, None, bytes(path))], partition_leader_epoch=1))
    text = shown("diverge", *paths)
    assert is_clean(text) and text.count(r"\x1b]0;title\x07") >= 2 and "differ" in text
    [row] = map(json.loads, shown("diverge", "--json", *paths).splitlines())
    assert row["partition"] == paths[0].name


def test_an_error_is_one_line_without_controls(tmp_path: Path) -> None:
    path = tmp_path / CONTROLS
    for arguments in (("dump", path), ("image", path), ("decode", CONTROLS, 1, "00"), (CONTROLS,)):
        text = shown(*arguments)
        assert is_clean(text) and text.count("\n") == 1 and r"\x1b" in text


def test_an_error_that_no_command_expected_is_one_line_without_controls(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), commands._errors_in_one_line():
        raise KcoreError(CONTROLS)
    text = capsys.readouterr().err
    assert is_clean(text) and text.count("\n") == 1 and text.startswith(r"kcore: \x1b]0;title")


def test_a_decoded_message_is_json_without_controls() -> None:
    message = {"mechanism": CONTROLS}
    text = shown("decode", "SaslHandshakeRequest", 1, shown("encode", "SaslHandshakeRequest", 1, json.dumps(message)))
    assert is_clean(text) and json.loads(text) == message


def test_top_shows_no_control_of_what_it_learnt() -> None:
    frame = Frame(
        leader_id=1, leader_address=CONTROLS, epoch=1, high_watermark=1, cluster_id=CONTROLS, age_s=0.0,
        replicas=[Replica(1, "voter", CONTROLS, 1, 0, 0, 0)],
        brokers=[Broker(1, "active", CONTROLS, 0, 0)],
        partitions=Partitions(1, 1, 0, 0, 0, CONTROLS),
        problems=[CONTROLS],
    )  # fmt: skip
    written = StringIO()
    consoles._PatientConsole(file=written, width=400).print(view_of(frame, 400))
    assert is_clean(written.getvalue()) and written.getvalue().count(r"\x1b]0;title\x07") == 6
    assert written.getvalue().count("[red]not markup[/red]") == 6


def test_describe_shows_no_control_of_what_it_learnt() -> None:
    state = ReplicaState(replica_id=1, log_end_offset=1)
    partition = DescribeQuorumResponsePartitionData(leader_id=1, current_voters=[state])
    nodes = [Node(node_id=1, listeners=[Listener(name=CONTROLS, host=CONTROLS, port=1)])]
    description = QuorumDescription(CONTROLS, partition, nodes)
    for lines in (quorum_tables.status(description), quorum_tables.seed_status(description)):
        assert all(is_clean(each) and "\n" not in each for each in lines)
    [line] = quorum_describe._lines_of(description, False, False, False, "4.3", True)
    assert json.loads(line)["clusterId"] == CONTROLS and is_clean(line)


def test_a_line_of_the_log_has_no_control_of_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    root = logging.Logger("root")
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(sys, "stderr", written)
    processes.begin_log(verbose=False)
    try:
        raise ValueError(CONTROLS)
    except ValueError:
        root.exception("%s: closed", CONTROLS)
    first, *trace = written.getvalue().splitlines()
    assert r"\x1b]0;title\x07\x9b2J\u202e" in first and first.endswith("closed") and len(trace) >= 3
    assert {each for each in written.getvalue() if unicodedata.category(each) in ("Cc", "Cf")} <= {"\n", "\t"}


def test_a_console_shows_no_control_of_a_text() -> None:
    written = StringIO()
    console = consoles._PatientConsole(file=written, width=400, force_terminal=True)
    table = Table("name")
    table.add_row(cell(CONTROLS))
    console.print(table)
    console.print("\x1b[2Jone", "\u202etwo", style="bold")
    assert Control.home().segment.text not in written.getvalue()
    console.print(Control.home())
    assert written.getvalue().endswith(Control.home().segment.text), "a screen of our own needs them"
    written.truncate(written.tell() - len(Control.home().segment.text))
    text = re.sub(r"\x1b\[[\d;]*m", "", written.getvalue())  # Styles of our own.
    assert is_clean(text) and r"\x1b[2Jone" in text and r"\u202etwo" in text
    assert isinstance(wide_console(), consoles._PatientConsole)


def test_lines_of_a_command_have_no_controls(capsys: pytest.CaptureFixture[str]) -> None:
    consoles.say("\x1b[2Jone\n\ttwo\u202e")
    consoles.say("\x1b[2Jone\n\ttwo\u202e", err=True)
    said = capsys.readouterr()
    assert said.out == "\\x1b[2Jone\n\ttwo\\u202e\n" and said.err == "\\x1b[2Jone\\n\\ttwo\\u202e\n"


def test_commands_write_through_one_function() -> None:
    """Only `console` writes to stdout or stderr by itself, and what must not load it."""
    found = {
        path.name
        for path in SOURCES.glob("*.py")
        if re.search(r"\btyper\.echo\(|(?<![.\w])print\(|(?<!_Patient)\bConsole\(", path.read_text())
    }
    assert found == {"console.py", "commands.py", "__init__.py"}
