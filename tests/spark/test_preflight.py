"""Checks before a cluster measures anything: masters, executors, and the command's messages about them."""

import signal
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from kcore.cli.options import spark_options
from kcore.errors import SparkError
from kcore.spark import preflight, session
from kcore.spark.pieces import Outcome
from kcore.spark.preflight import Place, check_master, judge
from kcore.version import __version__

DEAD = "spark://127.0.0.1:1"
COMMANDS = {
    "bench": ["bench", "smoke"],
    "sim": ["sim", "raft", "--seeds", "2"],
    "storm": ["storm", "broker-lost", "--target", "kcore-kraft"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dead_master_is_one_line_and_leaves_no_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*COMMANDS[command], "--master", DEAD])
    assert done.exit_code == 2
    assert f"kcore: --master {DEAD}: no Spark master there (127.0.0.1:1: Connection refused)" in done.stderr
    assert "Traceback" not in done.output and done.output.count("\n") <= 2


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(SparkError, match=f"127.0.0.1:1: .*; 127.0.0.1:{port}: "):
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")


@pytest.mark.parametrize("master", ["", "foo", "local[x]", "spark:/h:1", "spark://h", "spark://h:99999", "http://h:1"])
def test_an_invalid_master_is_refused_untried(master: str) -> None:
    with pytest.raises(SparkError, match=f"--master {master.replace('[', '.')}"):
        check_master(master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2, 3]", "local-cluster[1,1,1024]", "yarn", "k8s://h:1"])
def test_masters_without_an_address_of_their_own(master: str) -> None:
    check_master(master)


def test_executors_without_kcore_or_with_another_version_are_refused() -> None:
    driver, good = (Place(host, 1, __version__, "ab" * 32) for host in ("d", "a"))
    judge({good}, driver)
    with pytest.raises(
        SparkError, match=r"executors without kcore: b \(No module named 'kcore'\): .*kcore spark archive"
    ):
        judge({good, Place("b", 1, "", "", "No module named 'kcore'")}, driver)
    own = rf"{__version__} \(code {'ab' * 8}\)"
    with pytest.raises(SparkError, match=rf"differs from the driver's {own}: c has 0\.0\.9 \(code unknown\): "):
        judge({good, Place("c", 1, "0.0.9", "")}, driver)


def test_executors_with_the_version_but_other_code_are_refused_with_their_hosts() -> None:
    driver = Place("d", 1, __version__, "ab" * 32)
    found = {driver._replace(host="a"), driver._replace(host="b", sha256="cd" * 32), driver._replace(worker=2)}
    with pytest.raises(
        SparkError, match=rf": b has {__version__} \(code {'cd' * 8}\): install the same kcore"
    ) as raised:
        judge(found, driver)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("memory=4g", "give KEY=VALUE"),
        ("spark.x", "give KEY=VALUE"),
        ("spark.master=yarn", "name the master by --master"),
    ],
)
def test_a_setting_that_is_none(option: str, said: str) -> None:
    done = CliRunner().invoke(app, ["bench", "smoke", "--conf", option])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1) and said in done.stderr


def test_settings_and_archives(tmp_path: Path) -> None:
    (tmp_path / "x.zip").touch()
    (tmp_path / "k.tar.gz").touch()
    given = [f"{tmp_path}/x.zip", f"{tmp_path}/k.tar.gz#k"]
    wanted = spark_options.settings_of("local", ["spark.a=b=c", f"spark.archives={given[0]}"], given[1])
    assert wanted.settings == {"spark.a": "b=c", "spark.archives": ",".join(given)}


def test_rows_are_missing_only_if_the_work_of_a_lost_executor_was_not_done_again() -> None:
    rows: list[int] = []
    healed = [Outcome(0, [1]), Outcome(1, None, "executor lost: 1", again=True), Outcome(1, [2])]
    found = spark_options.gather(iter(healed), rows)
    assert (rows, found) == ([1, 2], (["executor lost: 1; its work was done again"], False))
    assert spark_options.gather(iter([Outcome(0, None, "ValueError: x")]), rows) == (["ValueError: x"], True)


def test_ctrl_c_is_handled_after_a_session_as_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's handler asks its Java, which has ended: a storm behind the session would not be interrupted."""

    def start(master: str) -> SimpleNamespace:
        signal.signal(signal.SIGINT, lambda *_: None)
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(preflight, "check_master", lambda master: None)
    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(session, "runs_this_kcore", lambda spark: True)
    before = signal.getsignal(signal.SIGINT)
    with spark_options.session_on(spark_options.settings_of("local[1]")):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
