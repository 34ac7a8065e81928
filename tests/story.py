"""The recorded story of a real three-broker cluster: the tree before and after each step, the requests in between."""

import gzip
import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

import cases
import kcore
from kcore.metadata.table.partition_table import PartitionTable

FOLDER = cases.DATA / "samples/zk39-scenario"
STEPS = [line.split() for line in (FOLDER / "steps.txt").read_text().splitlines()]


def dump(step: int) -> str:
    [path] = FOLDER.glob(f"{step}-*.zk.txt")
    return path.read_text()


def table(step: int) -> PartitionTable:
    return PartitionTable.from_zookeeper_dump(dump(step))


def all_requests(receiver: int) -> list[dict[str, Any]]:
    """All that a broker was sent, in order, with its answers."""
    return [each for each in _recorded() if each["receiver"] == receiver]


def columns(message: str, recorded: dict[str, Any]) -> kcore.wire.Columns:
    """A recorded request as columns."""
    version = recorded["header"]["requestApiVersion"]
    return kcore.decode_columns(
        message, version, kcore.encode(kcore.from_json(message, version, recorded["request"]), version)
    )


def requests_before(step: int, api: str) -> list[dict[str, Any]]:
    """The `api` requests that the brokers received between the previous step and this step, in order."""
    begin, end = int(STEPS[step - 2][1]), int(STEPS[step - 1][1])
    return [each for each in _recorded() if each["api"] == api and begin < _milliseconds(each["ts"]) <= end]


@cache
def _recorded() -> list[dict[str, Any]]:
    with gzip.open(FOLDER / "control-requests.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def _milliseconds(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp() * 1000


def last_states(requests: list[dict[str, Any]]) -> dict[int, dict[tuple[str, int], dict[str, Any]]]:
    """The last state of every partition that each broker received, by broker."""
    states: dict[int, dict[tuple[str, int], dict[str, Any]]] = {}
    for each in requests:
        for topic in each["request"]["topicStates"]:
            for state in topic["partitionStates"]:
                key = topic["topicName"], state["partitionIndex"]
                states.setdefault(each["receiver"], {})[key] = state | {"topicId": topic.get("topicId")}
    return states
