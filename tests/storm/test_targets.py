import asyncio
import signal
import socket
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest

from kcore.errors import DisconnectedError, PlanError, TargetError
from kcore.measure.hollow import quorum_client as quorum
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.target import Target
from kcore.measure.storm import targets
from kcore.measure.storm.kraft.scenarios import LIMITS, NEEDS_OWN_QUORUM, SCENARIOS
from kcore.measure.storm.run_storm import check_targets
from kcore.measure.storm.storm_plan import Cell, StormPlan
from kcore.measure.storm.targets import Left, free_ids
from kcore.net.server import serve
from kcore.schema.broker_lifecycle import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcore.schema.cluster_metadata import DescribeClusterResponse
from kcore.schema.structure import Message
from kcore.schema.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from net.loops import story


def test_ids_begin_at_one_or_behind_all_that_are_taken():
    assert free_ids(3, {3001}) == range(1, 4)
    assert free_ids(3, {3, 3001}) == range(4001, 4004)
    assert free_ids(5000, {3001}) == range(4001, 9001)
    with pytest.raises(TargetError, match="no 3 consecutive broker ids"):
        free_ids(3, {1, 2**31 - 1})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_cleanup_takes_effect_after_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    class Quorum:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            done.append("started")

        def close(self) -> None:
            signal.raise_signal(number)
            done.append("closed")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(targets, "KcoreQuorum", Quorum)
    before = signal.signal(number, stop)
    try:
        with pytest.raises(KeyboardInterrupt), targets.started(Target.parse("kcore-kraft"), 1, "1g"):
            pass
        assert done == ["started", "closed"] and signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)


def test_what_is_left_is_named_with_how_it_goes_away():
    text = str(Left("here:9093", ["kcore-storm-ab-000000", "kcore-storm-ab-000007"], [4001, 4002]))
    assert text == (
        "2 topics, kcore-storm-ab-000000 to kcore-storm-ab-000007 (kafka-topics.sh --delete --topic 'kcore-storm-ab.*' "
        "--bootstrap-server of a broker) and brokers 4001, 4002 (kafka-cluster.sh unregister --bootstrap-controller "
        "here:9093 --id of each)"
    )
    assert str(Left("here:9093", [], [4001])).startswith("brokers 4001 (")
    assert str(Left("here:9093", ["storm-a"], [])).endswith("--bootstrap-server of a broker)")


def test_what_a_target_does_not_allow_is_left_out_with_the_reason():
    plan = StormPlan(
        targets=("kafka-4.3.1", "here:9093"), scenarios=("broker-lost", "controller-killed"), controllers=3
    )
    ours, other = map(Target.parse, plan.targets)
    assert plan.scenarios_of(ours) == ["register", "create", "broker-lost", "controller-killed"]
    assert plan.scenarios_of(other) == ["register", "create", "broker-lost"]
    [line] = plan.left_out()
    assert line.startswith("controller-killed on here:9093: it kills")
    assert "--controllers 3" in StormPlan().left_out()[0]


@pytest.mark.parametrize("target", ["kafka-4.3.1", "kcore-kraft"])
def test_controllers_that_the_run_starts_get_every_scenario(target: str):
    plan = StormPlan(targets=(target,), scenarios=(*SCENARIOS, *LIMITS), controllers=3)
    plan.check()
    assert plan.scenarios_of(Target.parse(target)) == [*SCENARIOS, *LIMITS] and plan.left_out() == []


def test_limits_run_only_where_they_are_named_and_break_only_what_is_ours():
    assert not LIMITS.keys() & set(StormPlan().scenarios_of(Target.parse("kafka-4.3.1")))
    plan = StormPlan(targets=("kafka-4.3.1", "here:9093"), scenarios=("limit-create", "limit-elect"))
    plan.check()
    ours, other = map(Target.parse, plan.targets)
    assert plan.scenarios_of(ours) == ["register", "create", "limit-create", "limit-elect"]
    assert plan.scenarios_of(other) == ["register", "create", "limit-create"]
    [line] = plan.left_out()
    assert line.startswith("limit-elect on here:9093: it makes the active controller resign")


def test_brokers_that_only_count_run_what_needs_no_partitions():
    whole, counting = StormPlan(), StormPlan(metadata="count")
    target = Target.parse("kafka-4.3.1")
    assert whole.scenarios_of(target) == [name for name in SCENARIOS if name not in NEEDS_OWN_QUORUM]
    left = set(whole.scenarios_of(target)) - set(counting.scenarios_of(target))
    assert left == {"preferred-election", "isr-storm", "reassign", "assign", "dir-lost"}


def test_every_size_is_a_cell_with_the_targets_side_by_side():
    plan = StormPlan(targets=("a:1", "b:2"), brokers=(20, 100), partitions=(1000,), repeat=2)
    cells = [(cell.target.name, cell.brokers, cell.repetition) for cell in plan.cells()]
    assert cells[:4] == [("a:1", 20, 0), ("b:2", 20, 0), ("a:1", 100, 0), ("b:2", 100, 0)]
    assert len(cells) == 8


def test_time_outs_follow_the_size():
    target = Target.parse("kcore-kraft")
    sizes = {(20, 10_000): 1.0, (1_000, 1_000_000): 1.0, (10_000, 10_000): 10.0, (20, 4_000_000): 4.0}
    assert {size: Cell(target, *size, 0).patience for size in sizes} == sizes


def test_counts_in_pairs_are_sizes_of_their_own():
    plan = StormPlan(brokers=(3, 20), partitions=(100_000, 1_000_000), paired=True, lost_replicas=100_000)
    plan.check()
    assert [(cell.brokers, cell.partitions) for cell in plan.cells()] == [(3, 100_000), (20, 1_000_000)]
    assert len(StormPlan(brokers=(3, 3), partitions=(10, 10)).cells()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scenarios": ("flood",)}, "no scenario 'flood'.*broker-lost"),
        ({"brokers": (2,)}, "--brokers 2 "),
        ({"partitions": (0,)}, "--partitions 0"),
        ({"partitions_per_topic": 10_000}, "more than 10,000 records"),
        ({"replication_factor": 0}, "--replication-factor 0"),
        ({"racks": 21}, "--racks 21"),
        ({"controllers": 2}, "neither 1 nor 3"),
        ({"heap": "much"}, "--heap 'much'"),
        ({"metadata": "none"}, "neither full nor count"),
        ({"heartbeat_s": 9.0}, "--heartbeat-s 9"),
        ({"seconds": 0.0}, "--seconds 0"),
        ({"seconds": 601.0}, "--seconds 601"),
        ({"lost_share": 0.0}, "--lost-share 0"),
        ({"lost_share": 1.1}, "--lost-share 1.1"),
        ({"lost_replicas": -1}, "--lost-replicas -1"),
        ({"lost_replicas": 1_501, "partitions": (10_000, 100_000)}, "--lost-replicas 1501 is not from 0 to 1,500"),
        ({"brokers": (3, 20), "paired": True}, "as many --brokers as --partitions, and has 2 and 1"),
        ({"repeat": 0}, "--repeat 0"),
        ({"seed": -1}, "--seed -1 is not from 0"),
        ({"targets": ()}, "name a --target"),
        (
            {"targets": ("kcore-zk",), "scenarios": ("limit-create",)},
            "nothing is left to run: limit-create on kcore-zk",
        ),
        ({"targets": ("kcore-zk",), "controllers": 3}, "--target kcore-zk has one controller"),
        ({"targets": ("kcore-zk",), "master": "local"}, "--target kcore-zk has one controller"),
        ({"targets": ("kcore-kraft", "kcore-kraft")}, "kcore-kraft is given twice: .*a=kcore-kraft"),
        ({"targets": ("h:1,h:2", "h:2, h:1")}, "--target h:2, h:1 is given twice: leave one out"),
        ({"targets": ("h:1",), "pids": (7, 7)}, "--pid 7 is given twice"),
        ({"profile": True, "targets": ("h:1",)}, "kcore does not start the controllers at h:1"),
    ],
)
def test_an_impossible_plan_is_refused_before_anything_starts(options: dict, said: str):
    with pytest.raises((PlanError, TargetError), match=said):
        StormPlan(**options).check()
    StormPlan().check()


class Refusing:
    """A quorum that answers each request with the next of these error codes, in the way of the request."""

    def __init__(self, *codes: int) -> None:
        self.codes, self.requests = list(codes), list[Message]()

    async def ask(self, request: Message) -> Message:
        self.requests.append(request)
        code = self.codes.pop(0)
        if isinstance(request, DeleteTopicsRequest):
            return DeleteTopicsResponse(responses=[DeletableTopicResult(name="storm-a", error_code=code)])
        return UnregisterBrokerResponse(error_code=code)


def cleared(monkeypatch: pytest.MonkeyPatch, quorum: Refusing, *found: Left) -> list[str]:
    """The messages of `clear_away` for clusters that look like these, one after the other."""
    looks = list(found)

    async def left_on(*_: object) -> Left:
        return looks.pop(0)

    monkeypatch.setattr(targets, "left_on", left_on)
    monkeypatch.setattr(targets, "_CLEARING_S", 0)
    problems = asyncio.run(targets.clear_away(quorum, Random(1), "storm-", [7]))  # type: ignore[arg-type]
    assert not looks
    return problems


def test_what_came_after_the_first_clearing_is_cleared_too(monkeypatch: pytest.MonkeyPatch):
    quorum = Refusing(0, 0)
    there = Left("here:9093", ["storm-a"], [])
    assert cleared(monkeypatch, quorum, there, Left("here:9093", [], [7]), Left("here:9093", [], [])) == []
    assert [type(each) for each in quorum.requests] == [DeleteTopicsRequest, UnregisterBrokerRequest]


def test_a_refusal_has_its_reason(monkeypatch: pytest.MonkeyPatch):
    there = Left("here:9093", ["storm-a"], [7])
    problems = cleared(monkeypatch, Refusing(*[29, 31] * 3), there, there, there, there)
    assert problems == [
        f"left behind: {there}",
        "topics storm-a to storm-a are not deleted: TOPIC_AUTHORIZATION_FAILED",
        "broker 7 stays: CLUSTER_AUTHORIZATION_FAILED",
    ]


def test_what_is_gone_already_is_no_problem(monkeypatch: pytest.MonkeyPatch):
    there = Left("here:9093", ["storm-a"], [7])
    assert cleared(monkeypatch, Refusing(3, 102), there, Left("here:9093", [], [])) == []
    again = [there] * 4
    assert cleared(monkeypatch, Refusing(*[3, 102] * 3), *again) == [f"left behind: {there}"], "no refusal is named"


@pytest.mark.parametrize("there", [Left("here:9093", ["storm-a"], []), Left("here:9093", [], [7])])
def test_topics_or_brokers_that_stay_are_left_behind(there: Left, monkeypatch: pytest.MonkeyPatch):
    assert cleared(monkeypatch, Refusing(0, 0, 0), *[there] * 4) == [f"left behind: {there}"]


def test_a_target_without_a_listener_is_refused_before_anything_runs() -> None:
    with socket.socket() as bound:  # It does not listen, and no other process gets its port.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(TargetError, match=f"^no connection to 127.0.0.1:{port}: .*is a controller running there"):
            check_targets(StormPlan(targets=("kafka-4.3.1", f"127.0.0.1:{port}")))
    check_targets(StormPlan(targets=("kafka-4.3.1",)))  # The storm starts that one: nothing listens yet.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"session_timeout_ms": 9_000}, "--session-timeout is for controllers that run already: --target HOST:PORT"),
        ({"pids": (1,)}, "--pid is for controllers that run already: --target HOST:PORT"),
        ({"pids": (1,), "targets": ("a:1", "b:2")}, "--pid needs exactly one --target HOST:PORT"),
        ({"controllers": 3, "targets": ("a:1", "b:2")}, "--controllers 3 is for controllers that the run starts"),
        ({"session_timeout_ms": -1, "targets": ("a:1",)}, "--session-timeout -1 is not from 1 to"),
        ({"pids": (0,), "targets": ("a:1",)}, "--pid 0 is not a process id"),
    ],
)
def test_options_of_controllers_that_run_already_and_of_ours_are_for_them_alone(options: dict, said: str):
    with pytest.raises(PlanError, match=said):
        StormPlan(**options).check()
    StormPlan(targets=("a:1", "kcore-kraft"), session_timeout_ms=9_000).check()


async def _says(data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(4)
    writer.write(data)
    if not data:  # It never answers.
        await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"HTTP/1.0 400 Bad request\r\n\r\n", "does not answer as a controller: .*a frame of 1213486160 bytes"),
        (b"SSH-2.0-server\r\n", "does not answer as a controller: .*a frame of 1397966893 bytes"),
        (b"\0\0\0\x0a\0\0\0\x63" + bytes(6), "the answer has correlation id 99, not 0"),
        (b"\0\0\0\x0c" + bytes(6) + b"\1" + bytes(5), "is no controller of a KRaft quorum: the peer does not know"),
        (b"", r"^127\.0\.0\.1:\d+ is not ready within 0\.2 s: "),
    ],
)
@story
async def test_a_target_that_is_no_controller_is_refused_soon(
    data: bytes, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after tries for as long as a controller may take to start."""
    monkeypatch.setattr(quorum, "_STARTING_S", 3_600.0)
    monkeypatch.setattr(quorum, "_LIMITS", replace(quorum._LIMITS, connect_s=0.2))
    async with await asyncio.start_server(partial(_says, data), "127.0.0.1", 0) as server:
        target = Quorum([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"], random=Random(1))
        with pytest.raises(TargetError, match=f"{says}.*is a controller running there") as refused:
            await target.check_listens()
        assert "\n" not in str(refused.value)


@story
async def test_every_address_of_a_target_is_tried_and_named() -> None:
    async def answer(context: Any, request: Any) -> Any:
        return DescribeClusterResponse(cluster_id="c")

    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    with pytest.raises(TargetError, match=f"{first}.*; .*{second}.*is a controller running there"):
        await Quorum([first, second], random=Random(1)).check_listens()
    async with await serve("127.0.0.1", 0, answer, {"DescribeCluster": (1, 1)}) as server:
        await Quorum([first, f"127.0.0.1:{server.port}"], random=Random(1)).check_listens()


@story
async def test_a_controller_that_starts_may_close_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "_AGAIN_S", 0.001)
    asked = 0

    async def answer(context: Any, request: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise DisconnectedError("it starts")
        return DescribeClusterResponse(cluster_id="c")

    async with await serve("127.0.0.1", 0, answer, {"DescribeCluster": (1, 1)}) as server:
        await Quorum([f"127.0.0.1:{server.port}"], random=Random(1)).check_listens()
    assert asked == 3


@story
async def test_a_target_that_answers_versions_only_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "_LIMITS", replace(quorum._LIMITS, connect_s=0.2, request_s=3_600.0))

    async def answer(context: Any, request: Any) -> Any:
        await asyncio.Event().wait()

    async with await serve("127.0.0.1", 0, answer, {"DescribeCluster": (1, 1)}) as server:
        with pytest.raises(TargetError, match=r"0\.2 s.*is a controller running there"):
            await Quorum([f"127.0.0.1:{server.port}"], random=Random(1)).check_listens()


@pytest.mark.parametrize(("error", "says"), [(114, "is a broker, not a controller"), (115, "is a broker"), (0, None)])
@story
async def test_a_target_that_is_a_broker_is_refused_as_one(error: int, says: str | None) -> None:
    async def answer(context: Any, request: Any) -> Any:
        return DescribeClusterResponse(error_code=error if request.endpoint_type == 2 else 0, cluster_id="c")

    async with await serve("127.0.0.1", 0, answer, {"DescribeCluster": (1, 1)}) as server:
        target = Quorum([f"127.0.0.1:{server.port}"], random=Random(1))
        if says is None:
            await target.check_listens()
        else:
            with pytest.raises(TargetError, match=says):
                await target.check_listens()
