"""Every command with invalid arguments prints one line on stderr that begins with `kcore: `, exit code 2 or 1."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from kcore.cli.commands import COMMANDS, GROUPS, Command, app
from kcore.cli.files import codec_command
from storage.test_irregular_files import no_hang  # noqa: F401

HUGE = str(10**30)
TABLES: dict[str, dict[str, Command]] = {"": COMMANDS} | {name: table for name, (_, table) in GROUPS.items()}
ALL = [f"{group} {name}".strip() for group, table in TABLES.items() for name in table]
NEEDED = {  # Arguments without which nothing else would be looked at; no command gets so far that it uses them.
    "compare": "nope nope",
    "dump": "nope",
    "diverge": "nope nope",
    "image": "nope",
    "anonymize": "nope nope",
    "decode": "VoteRequest 0 00",
    "encode": "VoteRequest 0 {}",
    "controller zk": "--broker-id 1",
    "controller kraft format": "--config nope",
    "controller kraft run": "--config nope",
    "broker zk": "--broker-id 1 --log-dir nope",
    "quorum serve": "--id 1 --voters 1@localhost:1 --data nope",
    "quorum format": "--id 1 --data nope",
}
FILES = ("nope", "dir", "empty", "junk", "fifo", "closed/file")
OF_A_FILE = (
    "bench FILE --print-plan",
    "bench smoke --no-spark --cluster FILE",
    "compare FILE FILE",
    "diverge FILE FILE",
    "dump FILE --json",
    "image FILE",
    "anonymize FILE out",
    "anonymize 127.0.0.1:1 out --command-config FILE",
    "storm --cluster FILE",
    "decode VoteRequest 0 @FILE",
    "encode VoteRequest 0 @FILE",
    "controller kraft format --config FILE",
    "controller kraft run --config FILE",
    "quorum serve --id 1 --voters 1@localhost:1 --data FILE",
)
OF_A_FOLDER = (
    "bench smoke --no-spark --out FILE",
    "bench designs --quick --out FILE",
    "sim raft --seeds 2 --out FILE",
    "storm --out FILE",
    "quorum format --id 1 --data FILE",
    "broker zk --broker-id 1 --log-dir FILE",
)
WRONG = f"""
benh | did you mean 'bench'?
-x | No such option: -x
sim raftt | did you mean 'raft'?
controller zk --zookeeper 127.0.0.1:9 --session-timeout 200 | no ZooKeeper session at 127.0.0.1:9 within 0.2 s
controller kraft rum | did you mean 'kraft run'
quorum serv | did you mean 'serve'?
bench smok --print-plan | did you mean 'smoke'?
bench --partitons 5 | did you mean '--partitions'?
bench smoke --isr mxed | did you mean 'mixed'?
bench smoke --partitions ,
bench smoke --partitions -5
bench smoke --partitions {HUGE}
bench smoke --brokers {HUGE}
bench smoke --repeat -1
bench smoke --repeat {HUGE}
bench smoke --seed -1
bench smoke --seed {HUGE}
bench smoke --replication-factor 0
bench smoke --replication-factor 11 | more than the 10 brokers
bench smoke --racks 11 | more than the 10 brokers
bench smoke --topics 0
bench smoke --topics 5,6
bench smoke --topics 1001 | more than the 1000 partitions
bench smoke --topics 10 --partitions-per-topic 4 | not both
bench smoke --brokers-gone -0.1
bench smoke --brokers-gone nan
bench smoke --brokers-gone 0.9 | 2 must stay
bench smoke --warm-up-s -1
bench smoke --duration-s {HUGE}
bench designs --partitions x
bench designs --partitions {HUGE}
bench designs --brokers -1
bench designs --repeat {HUGE}
bench designs --seed -1
bench quorum --system nope
bench quorum --linger x
bench quorum --rate {HUGE}
bench quorum --record-bytes {HUGE}
bench quorum --seconds {HUGE}
bench quorum --seconds nan
top localhost:1 --once --timeout nan | '--timeout'
top localhost:1 --once --timeout inf | inf is not a finite number
top localhost:1 --once --timeout -1 | '--timeout'
top localhost:0 --once --timeout 0.5
quorum wait localhost:1 --timeout 0.2 | not ready within 0.2 s
top localhost:1 --interval nan | '--interval'
top localhost:1 --interval inf | inf is not a finite number
quorum wait localhost:1 --timeout nan | '--timeout'
quorum wait localhost:1 --timeout inf | inf is not a finite number
quorum serve --id 1 --append nan | '--append'
quorum serve --id 1 --append inf | inf is not a finite number
storm brokr-lost | did you mean 'broker-lost'
storm --target nope
storm --target localhost:99999
storm --target localhost:1 | is a controller running there?
storm --brokers {HUGE}
storm --partitions x
storm --partitions-per-topic -1
storm --replication-factor {HUGE}
storm --racks {HUGE}
storm --controllers 2
storm --heap x
storm --metadata x
storm --heartbeat-s nan
storm --seconds {HUGE}
storm --repeat {HUGE}
storm --seed {HUGE}
sim raft --seeds 0
sim raft --seeds {HUGE}
sim raft --first-seed {HUGE}
sim raft --seed {HUGE}
sim raft --events 0
sim raft --level 4.4 | did you mean '4.3'
sim raft --voters 9
sim raft --processes 0
sim raft --planted | ci/sim --planted NAME|all
sim raft --planted all --seeds 5 | ci/sim --planted NAME|all
sim raft --names | ci/sim --names
sim cluster --controllers 2 | 1, 3, 5
sim cluster --brokers 2
sim cluster --release 4.4 | '4.4' is none of 3.9.1
rivals code | did you mean 'codec'
rivals --partitions {HUGE}
rivals --repeat 0
dump dir --metadata --offsets
dump nope | no such file
image nope | no such file
image nope:x | and it is not HOST:PORT
image junk | give a segment (.log) or a snapshot (.checkpoint)
image fifo | fifo: a FIFO, not a regular file
image dir | nor a folder __cluster_metadata-0
diverge dir dir --conf spark.a=1 | --conf is for Spark, and this command runs without Spark
whatif junk --archives junk | --archives is for Spark
sim raft --seeds 1 --conf spark.a=1 | --conf is for Spark
sim cluster --seeds 1 --conf spark.a=1 | --conf is for Spark
bench smoke --no-spark --conf spark.a=1 | --conf is for Spark
decode VoteRequest 0 @ | no file is named
encode VoteRequest 0 @latin | @latin: not JSON: byte 1 is not UTF-8
decode ControlledShutdownRequest 0 zzzz | not hex
decode ControlledShutdownRequest 0 0x001 | odd number
decode VoteReqest 0 00 | did you mean 'VoteRequest'
decode VoteRequest {HUGE} 00
decode VoteRequest 0 00 --dialect kip591 | did you mean 'kip590'?
encode VoteRequest -- -1
encode VoteRequest 0 {{ | not JSON
encode VoteRequest 0 {{}} --header
messages VoteReqest | did you mean 'VoteRequest'
diverge a b --read byte | --read byte: give one of bytes, headers, epochs; did you mean 'bytes'?
messages VoteRequest --version 99
messages --skeleton
controller zk --broker-id 1 --listen nope
controller zk --broker-id 1 --config nope
broker zk --broker-id 1 --log-dir x --listen nope
controller kraft format --config junk --release 1
controller kraft run --config server.properties --kafka-way standbys-check-frst | did you mean 'standbys-check-first'?
broker kraft run --config server.properties --release 3.9 | 3.9.1
controller kraft run --config server.properties --answer-loop fast | 'compiled', 'plain'
quorum serve --id 1 --voters 1@h:1 --answer-loop fast | 'compiled', 'plain'
quorum serve --id {HUGE} --voters 1@localhost:1 --data nope
quorum describe --bootstrap-controller nope --status
quorum describe --bootstrap-controller localhost:1 --status --level 9 | --level 9: give 3.9 or 4.3
quorum format --id 1 --data q --level 9 | --level 9: give one of 3.9, 4.1
quorum serve --id 1 --voters 1@localhost:1 --data q --listen localhost:1 --level 9 | --level 9: give
controller zk --forwarding x | '--forwarding': 'x' is not one of 'released', 'document'
controller kraft run --config fifo | kcore: fifo: a FIFO, not a regular file
quorum describe --bootstrap-controller localhost:1 --status --timeout 500
"""


def kcore(text: str) -> Result:
    return CliRunner().invoke(app, text.split(), input=b"")


def assert_one_line(done: Result, codes: tuple[int, ...] = (1, 2)) -> None:
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("kcore: "), lines
    assert "[Errno" not in done.stderr  # "PATH: REASON" replaces Python's form.
    assert done.exit_code in codes


@pytest.fixture(autouse=True)
def among_odd_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("dir").mkdir()
    Path("closed").mkdir()
    Path("closed").chmod(0)
    Path("empty").touch()
    Path("junk").write_bytes(bytes(range(256)) * 20)
    Path("latin").write_bytes(b'"\xe9"')
    os.mkfifo("fifo")
    listener = "localhost:19093"
    Path("server.properties").write_text(
        f"process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@{listener}\nlisteners=CONTROLLER://{listener}\n"
        "controller.listener.names=CONTROLLER\nlog.dirs=data\n"
    )
    yield
    Path("closed").chmod(0o700)


def loaded(name: str) -> Any:
    group = next((each for each in GROUPS if name.startswith(f"{each} ")), "")
    return TABLES[group][name.removeprefix(group).strip()].load(name)


@pytest.mark.parametrize("name", [name for name in ALL if name != "test"])  # Its arguments go to pytest.
def test_options_that_there_are_not_and_values_that_are_no_numbers(name: str) -> None:
    assert_one_line(kcore(f"{name} --no-such-option"), (2,))
    for parameter in loaded(name).params:
        if parameter.opts[0].startswith("--") and parameter.type_descriptor.annotation in (int, float):
            done = kcore(f"{name} {NEEDED.get(name, '')} {parameter.opts[0]} x")
            assert_one_line(done, (2,))
            assert parameter.opts[0] in done.stderr


@pytest.mark.parametrize("name", [name for name in NEEDED if name not in ("decode", "encode", "controller zk")])
def test_arguments_that_are_missing(name: str) -> None:
    assert_one_line(kcore(name), (2,))


@pytest.mark.parametrize("name", [name for name in ALL if name != "test"])  # Its arguments go to pytest.
def test_an_option_with_an_empty_value_is_refused(name: str) -> None:
    for parameter in loaded(name).params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            done = CliRunner().invoke(app, [*name.split(), parameter.opts[0], ""])
            assert_one_line(done, (2,))
            assert parameter.opts[0] in done.stderr and "the value is empty" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        *("dump ''", "diverge a ''", "compare '' b", "anonymize a ''", "spark archive ''", "storm replay ''"),
        *("whatif ''", "bench ''", "top ''", "decode '' 0", "encode FetchRequest 0 ''", "quorum wait ''"),
    ],
)
def test_an_argument_that_is_empty_is_refused(line: str) -> None:
    done = CliRunner().invoke(app, shlex.split(line))
    assert_one_line(done, (2,))
    assert "the value is empty" in done.stderr


def test_an_argument_that_is_no_path_may_be_empty() -> None:
    done = CliRunner().invoke(app, ["decode", "ApiVersionsRequest", "0", ""])
    assert (done.exit_code, done.stdout) == (0, "{}\n")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("whatif junk --broker x", "'x' should be a valid integer"),
        ("whatif junk --broker 1 --broker x", "one of '1', 'x' should be a valid integer"),
        ("whatif junk --min-isr 0", "'0' should be greater than or equal to 1"),
    ],
)
def test_an_error_about_a_number_shows_the_number(line: str, shown: str) -> None:
    done = kcore(line)
    assert_one_line(done, (2,))
    assert shown in done.stderr


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
@pytest.mark.usefixtures("no_hang")
def test_an_invalid_invocation_is_one_line(line: str) -> None:
    command, _, said = line.partition(" | ")
    done = kcore(command)
    assert_one_line(done)
    assert said in done.stderr


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("command", OF_A_FILE)
@pytest.mark.usefixtures("no_hang")
def test_files_that_are_not_what_they_should_be(command: str, file: str) -> None:
    done = kcore(command.replace("FILE", file))
    if not (file == "empty" and command.startswith(("decode", "compare"))):
        assert_one_line(done)


@pytest.mark.parametrize("file", ["junk", "fifo", "junk/below", "/proc/below"])
@pytest.mark.parametrize("command", OF_A_FOLDER)
@pytest.mark.usefixtures("no_hang")
def test_folders_that_cannot_be_written(command: str, file: str) -> None:
    done = kcore(command.replace("FILE", file))
    assert_one_line(done)
    assert file in done.stderr


def test_errors_of_kcore_and_of_files_that_a_command_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise FileNotFoundError(2, "No such file or directory", "gone")

    def load(self: Command, name: str) -> Any:
        single = typer.Typer(add_completion=False)
        single.command(name=name)(fails)
        return typer.main.get_command(single)

    monkeypatch.setattr(Command, "load", load)
    done = kcore("dump")
    assert_one_line(done, (1,))
    assert done.stderr == "kcore: gone: No such file or directory\n"


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupts() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec_command, "_stdin", interrupts)
    done = kcore("decode VoteRequest 0")
    assert (done.exit_code, done.stderr) == (130, "kcore: interrupted\n")


@pytest.mark.long
def test_ctrl_c_in_sim_raft_keeps_the_seeds_that_are_done() -> None:
    options = "--seeds 100000 --events 100 --processes 2 --out kept --json"
    command = [sys.executable, "-m", "kcore", "sim", "raft", *options.split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0) as process:
        assert process.stdout is not None and json.loads(process.stdout.readline())["seed"] == 1
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does it: to all processes.
        _, error = process.communicate()
    assert process.returncode == 3 and "Traceback" not in error
    assert error.splitlines()[-1].startswith("partial run: ")
    kept = pq.read_table("kept/results.parquet")["seed"].to_pylist()
    assert kept and kept == list(range(1, len(kept) + 1)) and len(kept) < 100_000
