"""`kcore top`: its view of a quorum of kcore's controllers, as text and as JSON, and its exit codes."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli.servers.test_kraft_command import CLUSTER_ID, Controller, running
from kcore.cli.commands import app
from kcore.cli.measure import top_command
from kcore.cli.measure.top_view import view_of
from kcore.measure.hollow.fleet import Fleet
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.local_process import free_ports
from kcore.measure.storm.kraft.kraft_storm import Sizes, Storm
from kcore.measure.storm.kraft.scenarios import SCENARIOS
from kcore.measure.watch.frame import Broker, Frame, Partitions, Replica

KCORE = (sys.executable, "-c", "from kcore.cli import main; main()")


@contextmanager
def three_controllers(folder: Path) -> Iterator[dict[int, tuple[Controller, str, str]]]:
    """By id: the controller, its address and that of its metrics."""
    ports = dict(zip((11, 12, 13), free_ports(3), strict=True))
    pages = dict(zip(ports, free_ports(3), strict=True))
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())
    made = {}
    for node_id, port in ports.items():
        lines = f"controller.quorum.voters={voters}\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
        controller = Controller(node_id, folder / str(node_id), lines, "--metrics", str(pages[node_id]))
        controller.format("-t", CLUSTER_ID)
        made[node_id] = controller, f"127.0.0.1:{port}", f"127.0.0.1:{pages[node_id]}"
    with running(*(controller for controller, _, _ in made.values())):
        yield made


async def with_brokers(address: str, look: Any) -> Any:
    """The result of `look` while four brokers hold 40 partitions, and one of the brokers is fenced."""
    quorum = Quorum([address], random=Random(1))
    await quorum.open()
    try:
        async with Fleet(quorum, random=Random(2)) as fleet:
            storm = Storm(quorum, fleet, Sizes(brokers=4, partitions=40, partitions_per_topic=10, racks=0), Random(3))
            for broker_id in range(1, 5):
                fleet.add(broker_id)
            for name in ("register", "create", "controlled-shutdown"):
                await SCENARIOS[name](storm)
            return await asyncio.to_thread(look)
    finally:
        await quorum.close()


def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KCORE, "top", *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.long
def test_a_quorum_of_three_its_brokers_and_its_next_leader(tmp_path: Path) -> None:
    with three_controllers(tmp_path) as controllers:
        address = controllers[12][1]
        first = json.loads(top(address, "--once", "--json", "--interval", "0.2").stdout)
        page = controllers[first["leader_id"]][2]

        def look() -> tuple[dict[str, Any], str]:
            options = ("--once", "--interval", "0.5", "--metrics", page)
            return json.loads(top(address, "--json", *options).stdout), top(address, *options).stdout

        frame, text = asyncio.run(with_brokers(address, look))
        check_frame(frame, first["leader_id"])
        assert f"leader {frame['leader_id']} at {frame['leader_address']}, epoch {frame['epoch']}" in text
        assert "40 of 4 topics" in text and "heartbeats/s" in text and "CPU" in text and "RSS" in text
        gone = controllers[first["leader_id"]][0]
        assert gone.terminate() == 0
        moved = json.loads(top(",".join(each[1] for each in controllers.values()), "--once", "--json").stdout)
        assert moved["leader_id"] in controllers and moved["leader_id"] != first["leader_id"]
        assert moved["epoch"] > first["epoch"] and moved["partitions"]["partitions"] == 40


def check_frame(frame: dict[str, Any], leader_id: int) -> None:
    assert (frame["cluster_id"], frame["leader_id"], frame["problems"]) == (CLUSTER_ID, leader_id, [])
    roles = {each["id"]: each["role"] for each in frame["replicas"]}
    voters = {each: "leader" if each == leader_id else "voter" for each in (11, 12, 13)}
    assert roles == voters | {each: "observer" for each in (1, 2, 3, 4)}, "hollow brokers, and not this reader"
    counts = frame["partitions"]
    assert (counts["partitions"], counts["topics"], counts["offline"]) == (40, 4, 0)
    brokers = frame["brokers"]
    assert [each["id"] for each in brokers] == [1, 2, 3, 4]
    assert sum(each["leaders"] for each in brokers) == 40 and sum(each["replicas"] for each in brokers) == 120
    assert {each["state"] for each in brokers} <= {"active", "fenced", "shutting down"}
    measured = frame["measured"]
    assert measured["longest_event_ms"] > 0 and measured["longest_event"] and measured["rss_bytes"] > 1e6
    assert 0 <= measured["busy"] <= 1 and measured["heartbeats_per_s"] >= 0 and measured["connections"] >= 4


@pytest.mark.long
def test_a_lost_controller_is_named_and_the_last_state_stays(tmp_path: Path) -> None:
    """Frames of JSON until Ctrl-C, which ends it with 0."""
    [port] = free_ports(1)
    voters = f"controller.quorum.voters=7@127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
    controller = Controller(7, tmp_path / "node", voters)
    controller.format("-t", CLUSTER_ID)
    command = [*KCORE, "top", f"127.0.0.1:{port}", "--json", "--interval", "0.2"]
    with running(controller), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while (first := json.loads(process.stdout.readline()))["partitions"] is None:
            assert first["leader_id"] == 7
        controller.kill()
        frame: dict[str, Any] = {"problems": []}
        while not any("127.0.0.1" in each and "log" not in each for each in frame["problems"]):
            frame = json.loads(process.stdout.readline())
        assert frame["leader_id"] == 7 and frame["partitions"] is not None and frame["age_s"] > 0
        controller.start()
        while frame["problems"] or frame["epoch"] < 2:
            frame = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["127.0.0.1"], 2, "HOST:PORT '127.0.0.1': give HOST:PORT"),
        (["127.0.0.1:99999"], 2, "port 99999 is not in 0..65535"),
        (["127.0.0.1:1", "--metrics", "ftp://a"], 2, "--metrics 'ftp://a': give http://HOST:PORT/metrics"),
        (["127.0.0.1:1", "--once", "--timeout", "0.3"], 1, "127.0.0.1:1: no answer within 0.3 s"),
        (["no.such.host.invalid:9", "--once", "--timeout", "0.5"], 1, "no.such.host.invalid:9"),
    ],
)
def test_a_wrong_invocation_is_one_line(arguments: list[str], code: int, expected: str) -> None:
    done = CliRunner().invoke(app, ["top", *arguments])
    assert done.exit_code == code and expected in done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("kcore: ")


def shown(frame: Frame, width: int, height: int | None = None) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(view_of(frame, width, height))
    return captured.get().splitlines()


def many() -> Frame:
    replicas = [Replica(1, "leader", "c1:9093", 100, 0, 0, 0), Replica(2, "voter", "c2:9093", 90, 10, 12_345, None)]
    replicas += [Replica(10 + at, "observer", None, 100 - at, at, 5, 5) for at in range(60)]
    brokers = [Broker(10 + at, "fenced" if at == 50 else "active", f"rack{at % 3}", 5, 15) for at in range(60)]
    return Frame(
        age_s=12.0,
        cluster_id="c",
        leader_id=1,
        leader_address="c1:9093",
        epoch=3,
        high_watermark=99,
        replicas=replicas,
        brokers=brokers,
        partitions=Partitions(4, 300, 2, 5, 7, "4.3-IV0"),
        problems=["no answer"],
    )


def test_a_failure_is_one_line_where_nobody_sees_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    show, _ = top_command._output(Console(width=100, color_system=None), json=False, live=False)
    silent = Frame(problems=["c1:9093: connection refused"])
    for _ in range(3):
        show(silent)
    said = capsys.readouterr()
    assert said.out == "" and said.err == "kcore: c1:9093: connection refused; kcore top retries\n"
    show(replace(many(), age_s=0.1))
    said = capsys.readouterr()
    assert "leader 1 at c1:9093" in said.out and said.err == "kcore: the quorum answers again\n"
    for _ in range(3):
        show(many())  # 12 s old.
    said = capsys.readouterr()
    assert said.out == "" and said.err == "kcore: no answer; kcore top retries\n"


def test_a_terminal_is_not_overrun() -> None:
    for width, height in ((200, 50), (120, 30), (60, 40)):
        lines = shown(many(), width, height)
        assert len(lines) <= height and max(map(len, lines)) <= width


def test_what_is_wrong_comes_first() -> None:
    lines = shown(many(), 120, 30)
    assert "as of 12 s ago" in " ".join(lines) and "no answer" in " ".join(lines)
    brokers = lines[next(at for at, line in enumerate(lines) if line.startswith("broker ")) + 1 :]
    assert brokers[0].split()[:2] == ["60", "fenced"]
    assert "more" in brokers[-1]
    replicas = lines[next(at for at, line in enumerate(lines) if line.startswith("node ")) + 1 :]
    assert [line.split()[0] for line in replicas[:3]] == ["1", "2", "69"], "voters, then who lags most"
    assert "never" in replicas[1]
