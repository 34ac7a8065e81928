"""Files with secrets are for their owner alone, unless --shared-files asks for Kafka's way."""

import ast
import inspect
import os
import stat
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest

from cli.invoking import kcore
from kcore.cli.commands import BROKER, CONTROLLER, QUORUM
from kcore.cli.options.audit_option import AuditOption
from kcore.cli.options.files_option import SharedFilesOption
from kcore.cli.servers import server_process
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.storage.raft.raft_snapshots import RaftSnapshots

CONTROLLER_LINES = """process.roles=controller
node.id=1
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:19093
controller.quorum.bootstrap.servers=127.0.0.1:19093
log.dirs={folder}/new/data
"""
BROKER_LINES = """process.roles=broker
node.id=2
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:19093
listeners=PLAINTEXT://127.0.0.1:19092
log.dirs={folder}/new/data
"""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022, "a command sets it back"


def modes(folder: Path) -> tuple[set[int], set[int]]:
    """The modes of the files and of the folders that were made."""
    made = [folder, *folder.rglob("*")]
    found = [(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in made]
    return {mode for is_folder, mode in found if not is_folder}, {mode for is_folder, mode in found if is_folder}


@pytest.mark.parametrize("shared", [(), ("--shared-files",)])
@pytest.mark.parametrize("what", ["controller", "broker", "quorum"])
def test_what_format_makes_is_for_its_owner_alone(what: str, shared: tuple[str, ...], tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    lines = BROKER_LINES if what == "broker" else CONTROLLER_LINES
    config.write_text(lines.format(folder=tmp_path))
    common = ("-c", config, "-t", CLUSTER_ID)
    secret = ("--add-scram", "SCRAM-SHA-512=[name=a,password=b]")
    match what:
        case "controller":
            done = kcore("controller", "kraft", "format", *common, "--standalone", *secret, *shared)
        case "broker":
            done = kcore("broker", "kraft", "format", *common, *shared)
        case _:
            where = ("--data", tmp_path / "new" / "data", "--cluster-id", CLUSTER_ID)
            done = kcore("quorum", "format", "--id", 1, *where, "--standalone", "127.0.0.1:19093", *shared)
    assert done.exit_code == 0, done.output
    files, folders = modes(tmp_path / "new")
    assert folders == ({0o755} if shared else {0o700})
    assert files and files <= ({0o644, 0o444} if shared else {0o600, 0o400})


def test_every_command_that_writes_a_servers_files_has_the_option() -> None:
    """Those that format, and those that run a server, which may write an audit log, too."""
    found = []
    for name, each in chain(CONTROLLER.items(), BROKER.items(), QUORUM.items()):
        module = import_module(f"kcore.cli.{each.module}")
        function = getattr(module, each.function)
        kinds = [parameter.annotation for parameter in inspect.signature(function).parameters.values()]
        if AuditOption in kinds or name.endswith("format"):
            found.append(each.module)
            assert SharedFilesOption in kinds, each.module
            first = first_statement(function)
            assert first in FIRST, f"{each.module}: before it makes any file"
    assert len(found) == 8
    assert first_statement(server_process.begin_server) == FIRST[0]


FIRST = ("keep_private(shared_files)", "begin_server(verbose=verbose, shared_files=shared_files)")


def first_statement(function: Callable[..., object]) -> str:
    """The first one behind the docstring."""
    [definition] = ast.parse(inspect.getsource(function)).body
    assert isinstance(definition, ast.FunctionDef)
    return ast.unparse(definition.body[1])


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_snapshot_is_read_only_for_those_who_may_read_it(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        snapshots = RaftSnapshots(tmp_path)
        snapshot = OffsetAndEpoch(1, 1)
        snapshots.begin(snapshot)
        snapshots.freeze(snapshot)
    finally:
        os.umask(before)
    [path] = tmp_path.glob("*.checkpoint")
    assert stat.S_IMODE(path.stat().st_mode) == 0o444 & ~mask
