"""Directories of release 4.4.0: the first records of the cluster are in the snapshot 0-0, byte for byte as Kafka's."""

import shutil
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from cli.invoking import kcore
from kcore.raft.membership.replicas import Address
from kcore.raft.node import RaftNode
from kcore.storage.raft.raft_dir import METADATA_FOLDER, RaftDirectory
from raft.nodes import raft_node
from storage.raft.test_raft_dir import without_times
from storage.samples import SAMPLES

CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
SNAPSHOT: Final = f"{0:020}-{0:010}.checkpoint"
HEADER_TIME: Final = slice(73, 81)  # The lastContainedLogTimestamp in the snapshot's header: when the file was made.
STATIC: Final = "controller.quorum.voters=1@localhost:19093"
DYNAMIC: Final = "controller.quorum.bootstrap.servers=localhost:19093"
ALICE: Final = (
    'SCRAM-SHA-256=[name=alice,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3E=",'
    'saltedpassword="mT0yyUUxnlJaC99HXgRTSYlbuqa4FSGtJCJfTMvjYCE=",iterations=8192]'
)
TWO: Final = "1@localhost:19093:AAAAAAAAAAAAAAAAAAAABQ,2@localhost:19094:AAAAAAAAAAAAAAAAAAAABg"


class Format(NamedTuple):
    """How a directory is formatted: the setting of the quorum, and the options of both tools."""

    quorum: str
    options: tuple[str, ...] = ()
    only_kafkas: tuple[str, ...] = ()  # kcore infers it from the settings.


FORMATS: Final = {
    "static": Format(STATIC, ("--add-scram", ALICE)),
    "dynamic": Format(DYNAMIC, ("--initial-controllers", TWO)),
    "joining": Format(DYNAMIC, (), ("--no-initial-controllers",)),
}


def properties(folder: Path, quorum: str) -> Path:
    path = folder / "c.properties"
    path.write_text(
        f"process.roles=controller\nnode.id=1\nlog.dirs={folder / 'data'}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://localhost:19093\n{quorum}\n"
    )
    return path


def formatted(folder: Path, form: Format, release: str = "4.4.0") -> list[str]:
    """The files that kcore makes."""
    path = properties(folder, form.quorum)
    done = kcore("controller", "kraft", "format", "-c", path, "-t", CLUSTER, "--release", release, *form.options)
    assert done.exit_code == 0, done.output
    return sorted(str(each.relative_to(folder / "data")) for each in (folder / "data").rglob("*") if each.is_file())


def comparable(snapshot: Path) -> list[bytes]:
    """A snapshot's bytes but for the times."""
    data = bytearray(snapshot.read_bytes())
    data[HEADER_TIME] = bytes(8)
    return without_times(bytes(data))


@pytest.mark.parametrize("name", FORMATS)
def test_the_snapshot_is_what_kafkas_tool_writes(name: str, tmp_path: Path) -> None:
    assert formatted(tmp_path, FORMATS[name]) == [f"{METADATA_FOLDER}/{SNAPSHOT}", "meta.properties"]
    assert comparable(tmp_path / "data" / METADATA_FOLDER / SNAPSHOT) == comparable(
        SAMPLES / "kraft44" / name / SNAPSHOT
    )


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1"])
def test_older_releases_have_a_file_of_their_own(release: str, tmp_path: Path) -> None:
    assert formatted(tmp_path, FORMATS["joining"], release) == ["bootstrap.checkpoint", "meta.properties"]


def opened(folder: Path, name: str) -> RaftNode:
    """A node that has started in a directory with Kafka's snapshot."""
    formatted(folder, FORMATS[name])
    shutil.copy(SAMPLES / "kraft44" / name / SNAPSHOT, folder / "data" / METADATA_FOLDER / SNAPSHOT)
    directory = RaftDirectory(folder / "data", node_id=1)
    log, _ = directory.open()
    servers = (Address("localhost", 19093),) if name == "joining" else ()
    node = raft_node(1, voters=(1,) if name == "static" else (), log=log, bootstrap_servers=servers)
    node.start(None, 0)
    log.close()
    return node


def test_a_node_starts_in_each(tmp_path: Path) -> None:
    voters = {}
    for name in FORMATS:
        (tmp_path / name).mkdir()
        node = opened(tmp_path / name, name)
        voters[name] = sorted(node.voters.ids), node.state.name
    assert voters == {
        "static": ([1], "Leader"),
        "dynamic": ([1, 2], "Unattached"),
        "joining": ([], "Unattached"),
    }
