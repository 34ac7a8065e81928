"""Commands recognise a wrong kind of file or address: one line says what it is and what to do."""

import json
import struct
import zlib
from pathlib import Path

import pytest
import typer

from cases import DATA
from cli.invoking import kcore
from kcore.cli import commands
from kcore.cli.console import in_one_style
from kcore.storage.tools.foreign import foreign_kind
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record

LOG = f"{0:020}.log"
ZOOKEEPER = b"ZKSN\0\0\0\2" + bytes(100)


def message_set(magic: int, offset: int = 0) -> bytes:
    """One message as Kafka wrote it before 0.11, with a time stamp in magic 1."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 5) if magic else b"") + struct.pack(">ii", -1, 5)
    body += b"value"
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def refusal(*arguments: object, code: int = 2) -> str:
    """The one line on stderr."""
    done = kcore(*arguments)
    assert done.exit_code == code, done.output
    [line] = done.stderr.splitlines()
    assert line.startswith("kcore: ") and "[Errno" not in line
    return line.removeprefix("kcore: ")


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_formats(magic: int, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path, new = folder / LOG, encode_records([Record(1, 5, None, b"new")])
    path.write_bytes(message_set(magic) + new + message_set(magic, 2))
    for options, shown in (([], "magic: "), (["--records"], "payload: "), (["--json", "--records"], '"value":"')):
        done = kcore("dump", path, *options)
        assert done.exit_code == 0 and done.stdout.count(shown) == 3, done.output
    assert [json.loads(line)["count"] for line in kcore("dump", path, "--json").stdout.splitlines()] == [1, 1, 1]
    path.write_bytes(new + message_set(magic)[:-1] + b"!")
    assert refusal("dump", path, code=1).startswith(f"{path}: a record batch whose CRC does not match")
    path.write_bytes(message_set(magic))
    assert refusal("image", path) == (
        f"{path}: it is a message set of magic {magic}, from before Kafka 0.11 (`kcore dump` shows it)"
    )


def test_the_zeros_of_a_preallocated_segment(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    path, good = folder / LOG, encode_records([Record(0, 5, None, b"new")])
    path.write_bytes(good + bytes(100))
    said = f"{path}: 100 zeros at the end, as in a preallocated segment that was not closed: no record is missing"
    for options in ([], ["--deep"], ["--json"]):
        assert refusal("dump", path, *options, code=1) == f"{said} (at offset {len(good)})"


def test_a_snapshot_that_is_being_deleted(tmp_path: Path) -> None:
    folder = DATA / "samples/kraft43/controller-3003/__cluster_metadata-0"
    whole = max(folder.glob("0*-*.checkpoint"))
    path = tmp_path / f"{whole.name}.deleted"
    path.write_bytes(whole.read_bytes())
    for command in (["dump", "--deep"], ["image"]):
        ours, deleted = (kcore(*command, each) for each in (whole, path))
        assert deleted.exit_code == ours.exit_code
        assert deleted.output == ours.output.replace(str(whole), str(path)) and "Snapshot" in kcore("dump", path).stdout


def test_bytes_that_only_look_like_an_old_message_set_are_not_called_one() -> None:
    good = message_set(0)
    for is_one, offset, size, rest in (
        (True, 0, 14, good[12:]),
        (False, 0, 13, good[12:]),
        (False, -1, 14, good[12:]),
        (False, 0, 14, good[12:16] + b"\2" + good[17:]),
        (False, 0, 14, good[12:17] + b"\x10" + good[18:]),
        (False, 0, 14, good[12:17]),
    ):
        assert (foreign_kind(struct.pack(">qi", offset, size) + rest) is not None) is is_one, (offset, size, rest)


def test_files_of_zookeeper(tmp_path: Path) -> None:
    for name, head, kind in (("snapshot.1f", b"ZKSN", "a snapshot"), ("log.1f", b"ZKLG", "a transaction log")):
        path = tmp_path / name
        path.write_bytes(head + ZOOKEEPER[4:])
        for command in (["image", path], ["bench", "smoke", "--no-spark", "--cluster", path], ["dump", path]):
            line = refusal(*command)
            assert str(path) in line and f"it is {kind}" in line and "reads the tree as text" in line


def test_a_frame_with_its_size() -> None:
    frame = bytes.fromhex(
        kcore("encode", "ApiVersionsRequest", 3, '{"clientSoftwareName":"a","clientSoftwareVersion":"1"}').stdout
    )
    hint = "the first 4 bytes are the frame's size: give the bytes behind them"
    assert hint in refusal("decode", "ApiVersionsRequest", 3, (struct.pack(">i", len(frame)) + frame).hex(), code=1)
    assert hint not in refusal("decode", "ApiVersionsRequest", 3, (frame + b"\0").hex(), code=1)


@pytest.mark.parametrize(
    ("topic", "option", "said"),
    [
        ("__share_group_state", "--offsets", "no option decodes them; give --records"),
        ("__remote_log_metadata", "--metadata", "no option decodes them; give --records"),
        ("__consumer_offsets", "--transactions", "give --offsets"),
        ("__transaction_state", "--metadata", "give --transactions"),
        ("__cluster_metadata", "--offsets", "give --metadata"),
    ],
)
def test_records_of_another_topic_than_the_option_decodes(topic: str, option: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    (folder / LOG).write_bytes(encode_records([Record(0, 5, b"\0\0", b"\0\0")]))
    for given in (folder, folder / LOG):
        assert refusal("dump", given, option) == f"{folder / LOG}: these are records of {topic}: {said}"


@pytest.mark.parametrize("topic", ["__share_group_state", "__remote_log_metadata"])
def test_records_that_no_option_decodes(topic: str, tmp_path: Path) -> None:
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    (folder / LOG).write_bytes(encode_records([Record(0, 5, b"\0\0", b"\0\0")]))
    done = kcore("dump", folder, "--records")
    assert done.exit_code == 0 and done.stderr == (
        f"kcore: {folder / LOG}: keys and values of {topic} are shown as they are: kcore does not decode them\n"
    )
    assert kcore("dump", folder).stderr == ""


def test_paths_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        ["dump", "no.log"],
        ["image", "no.log"],
        ["diverge", "no.log", "no.log"],
        ["compare", "no.log", "no.log"],
        ["bench", "no.log"],
        ["bench", "smoke", "--no-spark", "--cluster", "no.log"],
        ["decode", "VoteRequest", "0", "@no.log"],
        ["encode", "VoteRequest", "0", "@no.log"],
        ["controller", "kraft", "format", "-c", "no.log"],
        ["controller", "kraft", "run", "-c", "no.log"],
        ["broker", "kraft", "run", "-c", "no.log"],
    ]
    for command in commands:
        line = refusal(*command)
        assert line.count("no.log") == 1, line
        assert any(reason in line for reason in ("No such file", "no such file", "no plan")), line


def test_an_error_of_the_system_that_no_command_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), commands._errors_in_one_line():
        (tmp_path / "no file").read_bytes()
    assert capsys.readouterr().err == f"kcore: {tmp_path / 'no file'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[Errno 2] No such file or directory: '/a b'", "/a b: No such file or directory"),
        ("/a: [Errno 2] No such file or directory: '/a'", "/a: No such file or directory"),
        ("--out: [Errno 20] Not a directory: '/a/b'", "--out: /a/b: Not a directory"),
        ("[Errno 18] Invalid cross-device link: '/a' -> '/b'", "/a: /b: Invalid cross-device link"),
        ("[Errno 28] No space left on device", "No space left on device"),
        (
            "[Errno 98] error while attempting to bind on address ('::1', 1): address already in use",
            "error while attempting to bind on address ('::1', 1): address already in use",
        ),
        ("record 3: topic 't' exists", "record 3: topic 't' exists"),
    ],
)
def test_errors_of_the_operating_system_have_one_style(text: str, said: str) -> None:
    assert in_one_style(text) == said
