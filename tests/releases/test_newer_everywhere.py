"""Every process and tool reports records of a made-up future release in one line; nothing is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.invoking import kcore
from controller.kraft.runtime import controller_of
from hollow.test_observer import observer
from kcore.broker.metadata_delta.loader import MetadataLoader
from kcore.cli.measure.top_view import view_of
from kcore.errors import NewerReleaseError
from kcore.measure.processes.local_process import free_ports
from kcore.measure.watch.metadata_log_reader import MetadataLogReader
from kcore.measure.watch.watcher import Watcher
from kcore.raft.log.raft_log import SnapshotPiece
from kcore.raft.state_machine import SnapshotReader
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.metadata_log import load_metadata
from kcore.storage.raft.raft_format import format_directory
from kcore.storage.raft.snapshot import BOOTSTRAP, write_bootstrap
from raft.batches import snapshot_batches
from releases.newer import KNOWN, SAYS, UNKNOWN, batches, level, topic

EVERY = pytest.mark.parametrize("kind", UNKNOWN)
CLUSTER = "Y2x1c3RlcmNsdXN0ZXJjbA"


def log_of(kind: str) -> bytes:
    return batches(level(30), KNOWN, UNKNOWN[kind], topic("b"))


def says(kind: str, where: str = "the log", offset: int = 2) -> str:
    return f"{where} needs a newer release: the record at offset {offset} {SAYS[kind]}"


def snapshot_of(kind: str) -> SnapshotReader:
    data = b"".join(snapshot_batches(1, [level(30), KNOWN, UNKNOWN[kind], topic("b")], 0, 0, None, 0))
    return SnapshotReader(OffsetAndEpoch(9, 1), lambda at, size: SnapshotPiece(data[at : at + size], len(data)))


# State machines: they apply nothing of the slice, and their process ends.


def machines() -> dict[str, Any]:
    return {"standby": controller_of(), "broker": MetadataLoader(), "hollow fleet": observer()[0]}


@EVERY
@pytest.mark.parametrize("name", machines())
def test_a_machine_that_reads_the_log_ends(name: str, kind: str) -> None:
    machine = machines()[name]
    with pytest.raises(NewerReleaseError, match=says(kind)):
        machine.on_committed(log_of(kind), 4)
    assert not machine.image.features and not machine.image.topic_ids


@EVERY
@pytest.mark.parametrize("name", ["standby", "broker"])
def test_a_machine_that_loads_a_snapshot_ends(name: str, kind: str) -> None:
    machine = machines()[name]
    machine.on_snapshot(snapshot_of(kind))
    with pytest.raises(NewerReleaseError, match=says(kind, "the snapshot 9-1", 3)):
        machine.on_read_slice()


# Processes: they end before they vote.


def controller(folder: Path, port: int) -> list[object]:
    (folder / "c.properties").write_text(
        f"process.roles=controller\nnode.id=1\nlog.dirs={folder / 'data'}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\ncontroller.quorum.voters=1@127.0.0.1:{port}\n"
    )
    return ["controller", "kraft", "run", "-c", folder / "c.properties"]


def broker(folder: Path, port: int) -> list[object]:
    (folder / "b.properties").write_text(
        f"process.roles=broker\nnode.id=1\nlog.dirs={folder / 'data'}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0\ncontroller.quorum.voters=7@127.0.0.1:{port}\n"
    )
    return ["broker", "kraft", "run", "-c", folder / "b.properties"]


def voter(folder: Path, port: int) -> list[object]:
    return ["quorum", "serve", "--id", 1, "--data", folder / "data", "--voters", f"1@127.0.0.1:{port}"]


def quorum_observer(folder: Path, port: int) -> list[object]:
    return [*voter(folder, port)[:-1], f"7@127.0.0.1:{port}", "--listen", "127.0.0.1:1"]


@EVERY
@pytest.mark.parametrize("command", [controller, broker, voter, quorum_observer], ids=lambda each: each.__name__)
def test_a_process_does_not_start(command: Callable[[Path, int], list[object]], kind: str, tmp_path: Path) -> None:
    format_directory(tmp_path / "data", node_id=1, features={"metadata.version": 30}, cluster_id=CLUSTER)
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(log_of(kind))
    done = kcore(*command(tmp_path, *free_ports(1)))
    assert done.exit_code == 2
    [line] = [each for each in done.output.splitlines() if "newer release" in each]
    assert line.startswith(f"kcore: {says(kind)}")
    assert not (folder / "quorum-state").exists(), "it did not vote"
    assert (folder / f"{0:020}.log").read_bytes() == log_of(kind)


@EVERY
def test_a_controller_does_not_start_with_a_newer_bootstrap_checkpoint(kind: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    format_directory(data, node_id=1, features={"metadata.version": 30}, cluster_id=CLUSTER)
    write_bootstrap(data, [level(30), UNKNOWN[kind]], time_ms=1)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    done = kcore(*controller(tmp_path, *free_ports(1)))
    assert done.exit_code == 2
    [line] = done.output.splitlines()
    assert line.startswith(f"kcore: {says(kind, str(data / BOOTSTRAP))}")
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before, "it stored nothing"


# Tools: they read on.


@EVERY
def test_top_shows_the_rest(kind: str) -> None:
    reader = MetadataLogReader()
    watcher = Watcher([], interval_s=1)
    watcher.reader = reader
    reader._read(log_of(kind), 4, reports_commits=True)
    frame = watcher.frame()
    assert frame.partitions is not None and frame.partitions.topics == 2
    assert frame.partitions.metadata_version == ("99" if kind == "level" else "4.3-IV0")
    [problem] = frame.problems
    assert f"the record at offset 2 {SAYS[kind]}" in problem and "\n" not in problem
    assert ("1 record of a newer release is skipped" in problem) == (kind != "level")
    assert view_of(frame, 200) is not None


@EVERY
def test_files_are_read_on(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(log_of(kind))
    image = kcore("image", file)
    assert image.output.startswith("2 topics, ")
    assert image.exit_code == (0 if kind == "level" else 1)
    dump = kcore("dump", "--metadata", file)
    assert dump.exit_code == 0 and dump.output.count('"type":"TOPIC_RECORD"') == 2
    as_json = kcore("dump", "--metadata", "--json", file)
    for done in (image, dump, as_json):
        [line] = [each for each in done.output.splitlines() if each.startswith("kcore: ")]
        assert f"the record at offset 2 {SAYS[kind]}" in line
        assert ("1 record of a newer release is skipped" in line) == (kind != "level")


@EVERY
def test_the_library_refuses_to_skip_unless_it_may(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(log_of(kind))
    if kind == "level":
        assert load_metadata(file).features == {"metadata.version": 99}
    else:
        with pytest.raises(NewerReleaseError, match=says(kind, str(file))):
            load_metadata(file)
    loaded = load_metadata(file, stop=True)
    assert [*loaded.topic_ids] == ["a", "b"] and not loaded.problem and SAYS[kind] in str(loaded.newer)
