"""ZooKeeper dumps: a real cluster, step by step, and invalid text."""

import json

import pytest

from cases import DATA
from kcore.errors import TableError
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.table.partition_table import PartitionState, PartitionTable
from kcore.metadata.zookeeper.zookeeper_dump import parse_zookeeper_dump
from kcore.types import ZERO_UUID, Uuid

STORY = DATA / "samples" / "zk39-scenario"
STEPS = sorted(STORY.glob("*.zk.txt"))


def table_after(step: int) -> PartitionTable:
    [path] = STORY.glob(f"{step}-*.zk.txt")
    return PartitionTable.from_zookeeper_dump(path.read_text())


def states(table: PartitionTable) -> dict[str, tuple]:
    """Leader, leader epoch, partition epoch, controller epoch, ISR by partition."""
    found = {}
    for row in range(len(table)):
        state = table.state(row)
        found[f"{state.topic}-{state.partition}"] = (
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.controller_epoch,
            state.isr,
        )
    return found


def test_the_whole_story_is_there() -> None:
    assert len(STEPS) == 7


@pytest.mark.parametrize("path", STEPS, ids=lambda path: path.name)
def test_every_step_as_its_json_has_it(path) -> None:
    """The text is searched without the parser."""
    text = path.read_text()
    table = PartitionTable.from_zookeeper_dump(text)
    lines = dict(line.split("\t", 1) for line in text.splitlines())
    seen = 0
    for node, rest in lines.items():
        stats, data = rest.split("\t")
        parts = node.split("/")
        if node.startswith("/brokers/topics/") and parts[-1] == "state":
            state, written = table.state(table.row_of(parts[3], int(parts[5]))), json.loads(data)
            assert [state.leader, state.leader_epoch, state.controller_epoch, list(state.isr)] == [
                written[key] for key in ("leader", "leader_epoch", "controller_epoch", "isr")
            ]
            assert f"version={state.partition_epoch} " in stats
            topic = json.loads(lines[f"/brokers/topics/{parts[3]}"].split("\t")[1])
            assert list(state.replicas) == topic["partitions"][parts[5]]
            assert str(table.topics.ids[table.topics.row(parts[3])]) == topic["topic_id"]
            seen += 1
        if node.startswith("/brokers/ids/"):
            row = table.brokers.row(int(parts[3]))
            assert table.brokers.live[row]
            assert f" czxid={table.brokers.epochs[row]} " in stats
            port = json.loads(data)["port"]
            assert table.brokers.endpoints[row] == (Endpoint(port, "127.0.0.1", "PLAINTEXT", 0),)
    assert seen == len(table)
    assert sum(table.brokers.live) == sum(node.startswith("/brokers/ids/") for node in lines)


def test_a_broker_dies_and_comes_back() -> None:
    assert states(table_after(1)) == {
        "t1-0": (1, 0, 0, 1, (1, 2, 3)),
        "t1-1": (2, 0, 0, 1, (2, 3, 1)),
        "t1-2": (3, 0, 0, 1, (3, 1, 2)),
        "t2-0": (2, 0, 0, 1, (2, 3)),
    }
    killed = table_after(2)
    assert states(killed) == {
        "t1-0": (1, 1, 1, 1, (1, 2)),
        "t1-1": (2, 1, 1, 1, (2, 1)),
        "t1-2": (1, 1, 1, 1, (1, 2)),
        "t2-0": (2, 1, 1, 1, (2,)),
    }
    assert killed.brokers.ids.tolist() == [1, 2, 3]
    assert killed.brokers.live.tolist() == [True, True, False]
    assert killed.brokers.epochs.tolist() == [25, 45, -1]
    assert killed.brokers.endpoints[2] == ()
    assert killed.index.rows(2).tolist() == [0, 1, 2, 3]
    back = table_after(3)
    assert back.brokers.epochs.tolist() == [25, 45, 102]
    assert states(back)["t1-1"] == (2, 1, 2, 1, (2, 1, 3))


def test_the_rest_of_the_story() -> None:
    assert states(table_after(4))["t1-2"] == (3, 2, 3, 1, (1, 2, 3))
    reassigned = table_after(5)
    assert reassigned.state(3) == PartitionState("t2", 0, (1, 2), (2, 1), 2, 4, 6, 1, 0, (), ())
    assert (reassigned.adding, reassigned.removing) == ({}, {})
    assert states(table_after(6)) == {"t2-0": (2, 4, 6, 1, (2, 1))}
    assert states(table_after(7)) == {"t2-0": (2, 5, 7, 2, (2,))}
    dump = parse_zookeeper_dump(STEPS[6].read_text())
    assert (dump.controller_id, dump.controller_epoch) == (3, 2)


def node(path: str, data: object = None, version: int = 0, czxid: int = 1) -> str:
    text = "<null>" if data is None else data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    return f"{path}\tversion={version} cversion=0 czxid={czxid} mzxid=9 ephemeralOwner=0x1f\t{text}"


ROOTS = [node("/brokers/ids"), node("/brokers/topics")]
STATE = {"controller_epoch": 3, "leader": 4, "version": 1, "leader_epoch": 2, "isr": [4, 6]}


def dump(*nodes: str) -> str:
    return "\n".join([*ROOTS, *nodes]) + "\n"


def test_a_reassignment_under_way_and_partitions_out_of_order() -> None:
    topic = {
        "partitions": {"10": [4, 5], "2": [6, 5, 4]},
        "topic_id": "QJnSl5U3RI6RugWX9LnDWg",
        "adding_replicas": {"2": [6]},
        "removing_replicas": {"2": [4], "10": []},
        "version": 3,
    }
    table = PartitionTable.from_zookeeper_dump(
        dump(
            node("/brokers/topics/t", topic),
            node("/brokers/topics/t/partitions/2/state", STATE, version=8),
            node(
                "/brokers/topics/t/partitions/10/state", STATE | {"leader": -1, "isr": [5], "leader_recovery_state": 1}
            ),
        )
    )
    assert table.topics.ids == [Uuid("QJnSl5U3RI6RugWX9LnDWg")]
    assert table.state(0) == PartitionState("t", 2, (6, 5, 4), (4, 6), 4, 2, 8, 3, 0, (6,), (4,))
    assert table.state(1) == PartitionState("t", 10, (4, 5), (5,), -1, 2, 0, 3, 1, (), ())
    assert table.brokers.live.tolist() == [False] * 3


def test_a_partition_without_state_and_a_topic_without_id() -> None:
    text = dump(
        node("/brokers/topics/t", {"version": 1, "partitions": {"0": [7]}}), node("/brokers/topics/t/partitions")
    )
    parsed = parse_zookeeper_dump(text)
    assert (parsed.controller_id, parsed.controller_epoch) == (-1, 0)
    table = PartitionTable.from_arrays(**parsed.arrays)
    assert table.state(0) == PartitionState("t", 0, (7,), (), -1, -1, -1, -1, 0, (), ())
    assert table.topics.ids == [ZERO_UUID]


def test_brokers_of_every_version() -> None:
    listeners = {
        "endpoints": ["INTERNAL://h-1.example:9092", "EXTERNAL://[2001:db8::1]:9093"],
        "listener_security_protocol_map": {"INTERNAL": "SASL_PLAINTEXT", "EXTERNAL": "SASL_SSL"},
        "rack": "r1",
        "version": 5,
    }
    table = PartitionTable.from_zookeeper_dump(
        dump(
            node("/brokers/ids/1", {"version": 1, "host": "old", "port": 9092, "jmx_port": -1}, czxid=2**40),
            node("/brokers/ids/2", {"version": 2, "endpoints": ["SSL://h:1", "PLAINTEXT://:2"]}),
            node("/brokers/ids/10", listeners),
        )
    )
    assert table.brokers.ids.tolist() == [1, 2, 10]
    assert table.brokers.epochs.tolist() == [2**40, 1, 1]
    assert table.brokers.racks == [None, None, "r1"]
    assert table.brokers.endpoints == [
        (Endpoint(9092, "old", "PLAINTEXT", 0),),
        (Endpoint(1, "h", "SSL", 1), Endpoint(2, "", "PLAINTEXT", 0)),
        (Endpoint(9092, "h-1.example", "INTERNAL", 2), Endpoint(9093, "2001:db8::1", "EXTERNAL", 3)),
    ]
    assert len(table) == 0


TOPIC = node("/brokers/topics/t", {"version": 3, "partitions": {"0": [1]}})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not a ZooKeeper dump"),
        ("hello", "line 1 is not a ZooKeeper node: 'hello'"),
        (ROOTS[0], "not a ZooKeeper dump"),
        (ROOTS[1], "not a ZooKeeper dump"),
        (dump("/a\tversion=x\t"), "line 3 is not"),
        (dump(node("/brokers/topics/t", "{")), "/brokers/topics/t: "),
        (dump(node("/brokers/topics/t", "[]")), "/brokers/topics/t: not a JSON object"),
        (dump(node("/brokers/topics/t", "[" * 100_000)), "/brokers/topics/t: "),
        (dump(node("/brokers/topics/t")), "/brokers/topics/t: "),
        (dump(node("/brokers/topics/t", {"partitions": {"x": [1]}})), "not as Kafka writes it"),
        (dump(node("/brokers/topics/t", {"partitions": [1]})), "not a JSON object: 'partitions'"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": 1}})), "not as Kafka writes it"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": ["1"]}})), "must be integers"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [[1]]}})), "not as Kafka writes it"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": []}})), "partition row 0 has no replicas"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [1, 1]}})), "names a broker twice"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [-1, 1]}})), "hole"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [2**70]}})), "outside"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [1]}, "topic_id": "short"})), "not as Kafka writes it"),
        (dump(node("/brokers/topics/t", {"partitions": {"0": [1]}, "adding_replicas": []})), "not a JSON object"),
        (dump(TOPIC, node("/brokers/topics/t/partitions/0/state", {"leader": 1})), "'leader_epoch'"),
        (dump(TOPIC, node("/brokers/topics/t/partitions/0/state", STATE | {"leader": "1"})), "not as Kafka writes it"),
        (dump(TOPIC, node("/brokers/topics/t/partitions/0/state", STATE | {"leader": None})), "not as Kafka writes it"),
        (dump(TOPIC, node("/brokers/topics/t/partitions/0/state", STATE | {"leader_epoch": 1.5})), "integers"),
        (dump(TOPIC, node("/brokers/topics/t/partitions/0/state", STATE | {"leader_epoch": 2**40})), "outside"),
        (dump(node("/brokers/ids/x", {})), "not as Kafka writes it"),
        (dump(node("/brokers/ids/1", {})), "not as Kafka writes it"),
        (
            dump(node("/brokers/ids/1", {"version": 5, "endpoints": ["PLAINTEXT//h:1"]})),
            "'PLAINTEXT//h:1' is not an endpoint",
        ),
        (dump(node("/brokers/ids/1", {"version": 5, "endpoints": ["CLIENTS://h:1"]})), "CLIENTS"),
        (dump(node("/brokers/ids/1", {"version": 5, "endpoints": [5]})), "not as Kafka writes it"),
        (dump(node("/controller", {})), "brokerid"),
        (dump(node("/controller_epoch", "one")), "not as Kafka writes it"),
    ],
)
def test_text_that_is_no_dump(text: str, fault: str) -> None:
    with pytest.raises(TableError, match=fault):
        PartitionTable.from_zookeeper_dump(text)


DUMP = (
    "/brokers/ids\tversion=0 cversion=0 czxid=1 mzxid=1\t<null>\n"
    "/brokers/topics\tversion=0 cversion=0 czxid=1 mzxid=1\t<null>\n"
    '/brokers/ids/1\tversion=1 cversion=0 czxid=7 mzxid=7\t{"version":5,"host":"h","port":1,'
    '"listener_security_protocol_map":{"A":"PLAINTEXT"},"endpoints":["A://h:1"],"rack":"RACK"}\n'
)


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"])
def test_a_line_ends_by_a_newline_alone(separator: str) -> None:
    rack = f"a{separator}b" if separator >= " " else f"a\\u{ord(separator):04x}b"
    table = PartitionTable.from_zookeeper_dump(DUMP.replace("RACK", rack))
    assert table.brokers.racks == [f"a{separator}b"]
    with pytest.raises(TableError, match=r"/brokers/ids/1"):  # JSON has no such character, and its node is named.
        PartitionTable.from_zookeeper_dump(DUMP.replace('"port"', f'\x0b{separator}"port"'))


def test_a_newline_may_have_a_carriage_return_in_front() -> None:
    dump = DUMP.replace("\n", "\r\n")
    assert PartitionTable.from_zookeeper_dump(f"{dump}\r\n").brokers.racks == ["RACK"]


@pytest.mark.parametrize("field", ["version=1", "cversion=0", "czxid=7", "mzxid=7"])
def test_numbers_have_ascii_digits(field: str) -> None:
    for digit in ("\u0661", "\uff11"):
        line = DUMP.splitlines()[-1].replace(f"{field[:-1]}{field[-1]}", f"{field[:-1]}{digit}", 1)
        with pytest.raises(TableError, match="line 3 is not a ZooKeeper node"):
            PartitionTable.from_zookeeper_dump("\n".join([*DUMP.splitlines()[:-1], line]))


def test_a_lone_surrogate_is_an_error_that_says_where() -> None:
    with pytest.raises(TableError, match=r"line 3, '/brokers/ids/1': a lone surrogate, '\\ud800': read"):
        PartitionTable.from_zookeeper_dump(DUMP.replace("RACK", "\ud800"))
    with pytest.raises(TableError, match="line 4"):
        PartitionTable.from_zookeeper_dump(f"{DUMP}/brokers/ids/\udc80\tversion=0 cversion=0 czxid=1 mzxid=1\t<null>")
