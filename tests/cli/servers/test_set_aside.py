"""The commands that open a log for writing: a hole in it is exit code 2 and one line, until --set-aside is given."""

from pathlib import Path

import pytest

from cli.invoking import kcore
from kcore.cli.servers import quorum_serve
from kcore.measure.report.exits import Exit
from kcore.storage.raft.raft_dir import METADATA_FOLDER
from kcore.storage.raft.raft_format import format_directory
from storage.building import batches


def with_a_hole(directory: Path) -> Path:
    """A formatted directory whose log lacks offset 3."""
    features = {"metadata.version": 30}
    format_directory(directory, node_id=1, features=features, cluster_id="Y2x1c3RlcmNsdXN0ZXJjbA", now_ms=0)
    folder = directory / METADATA_FOLDER
    folder.mkdir(exist_ok=True)
    found = batches(6, epoch=1)
    (folder / f"{0:020}.log").write_bytes(b"".join(found[:3] + found[4:]))
    return folder


def test_a_quorum_node_with_a_hole_in_its_log_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_a_hole(tmp_path / "data")
    options = ("--id", 1, "--data", tmp_path / "data", "--voters", "1@127.0.0.1:1")
    done = kcore("quorum", "serve", *options)
    assert done.exit_code == Exit.USAGE
    [line] = [each for each in done.stderr.splitlines() if "kcore: " in each]
    assert "offset 3 is missing" in line and "--set-aside" in line
    monkeypatch.setattr(quorum_serve, "run_watched", lambda serving: serving.close() or Exit.GOOD)
    done = kcore("quorum", "serve", *options, "--set-aside")
    assert done.exit_code == Exit.GOOD and (folder / f"{0:020}.log.aside").is_file()


@pytest.mark.parametrize("command", [("broker", "zk"), ("broker", "kraft", "run"), ("controller", "kraft", "run")])
def test_brokers_and_controllers_have_the_option(command: tuple[str, ...]) -> None:
    assert "--set-aside" in kcore(*command, "--help").stdout
