"""Conditions that tests of real brokers under KRaft controllers wait for, and checks at their end."""

import asyncio
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from random import Random
from typing import Final

from kcore.raft.membership.replicas import Address
from kcore.schema.describe_quorum import DescribeQuorumResponsePartitionData as PartitionData
from kcore.server.quorum_node.describe import describe_quorum
from oracle.kafka_tools import CONSOLE_CONSUMER, VERIFIABLE_PRODUCER, tool_command
from oracle.kcore_brokers import PRODUCER, Seen, check, topic_at, until
from oracle.kraft_clusters import KraftCluster, Node

ALL: Final = frozenset({1, 2, 3})
SMALL_SNAPSHOTS: Final = "metadata.log.max.record.bytes.between.snapshots=4000\n"


def described(cluster: KraftCluster, timeout_s: float = 60.0) -> PartitionData:
    """The quorum as its leader describes it."""
    running = [Address("127.0.0.1", node.port) for node in cluster.controllers if node.is_running]
    asking = describe_quorum(running, controllers=True, timeout_s=timeout_s, random=Random())
    return asyncio.run(asking).partition


def active_controller(cluster: KraftCluster) -> Node:
    """Once there is one."""
    found: list[Node] = []

    def there() -> bool:
        leader_id = described(cluster).leader_id
        found[:] = [node for node in cluster.controllers if node.node_id == leader_id and node.is_running]
        return bool(found)

    until(there, lambda: "no controller is active", within_s=120)
    return found[0]


def await_isr(address: str, isr: frozenset[int], topic: str = "t") -> dict[int, Seen]:
    """Until the broker at an address tells this ISR of each partition of the topic."""
    found: dict[int, Seen] = {}

    def there() -> bool:
        found.update(topic_at(address, topic))
        return bool(found) and all(each.isr == isr for each in found.values())

    until(there, lambda: found, within_s=120)
    return found


def await_all(cluster: KraftCluster, topic: str = "t") -> None:
    """Until every broker knows that the ISRs of the topic are full."""
    for broker in cluster.brokers:
        await_isr(broker.address, ALL, topic)


@contextmanager
def writing(cluster: KraftCluster, run: int, topic: str = "t") -> Iterator[None]:
    """Kafka's verifiable producer, idempotent and with acks=all, throughout.

    At the end each acknowledged record is there once, and in order; `run` begins all its values.
    """
    properties = cluster.folder / "producer.properties"
    properties.write_text(PRODUCER)
    output = cluster.folder / f"produced-{topic}-{run}.json"
    to = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--throughput", 200, "--acks", -1)
    with output.open("wb") as printed:
        command = tool_command(
            *(VERIFIABLE_PRODUCER, *to, "--value-prefix", run, "--command-config", properties), release=cluster.release
        )
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        try:
            until(lambda: "producer_send_success" in output.read_text(), output.read_text, within_s=120)
            yield
        finally:
            process.terminate()
            process.wait(120)
    lines = [json.loads(line) for line in output.read_text().splitlines() if line.startswith("{")]
    refused = [line for line in lines if line["name"] == "producer_send_error"]
    assert refused == []
    acknowledged = [line["value"] for line in lines if line["name"] == "producer_send_success"]
    check(consumed(cluster, topic, acknowledged), acknowledged, run)


def consumed(cluster: KraftCluster, topic: str, wanted: Sequence[str] = ()) -> list[list[str]]:
    """The values of each partition, in order; with a long wait if something wanted is missing."""
    where = ("--bootstrap-server", cluster.bootstrap, "--topic", topic, "--from-beginning")
    show = ("--formatter-property", "print.partition=true")
    for wait_ms in (8_000, 60_000):
        printed = cluster.tool(CONSOLE_CONSUMER, *where, *show, "--timeout-ms", wait_ms, timeout_s=300)
        found: dict[str, list[str]] = {}
        for line in printed.splitlines():
            partition, _, value = line.partition("\t")
            found.setdefault(partition, []).append(value)
        if {*wanted} <= {value for values in found.values() for value in values}:
            break
    return list(found.values())


def brokers(cluster: KraftCluster) -> tuple[str, str]:
    """Options of a tool that asks the brokers."""
    return "--bootstrap-server", cluster.bootstrap


def controllers(cluster: KraftCluster) -> tuple[str, str]:
    """Options of a tool that asks the controllers themselves."""
    return "--bootstrap-controller", cluster.controller_bootstrap


def ways(cluster: KraftCluster) -> tuple[tuple[str, str], tuple[str, str]]:
    """Both ways to ask."""
    return brokers(cluster), controllers(cluster)


def refusal(cluster: KraftCluster, *tool: object) -> str:
    """Runs a tool that must fail, and returns all that it prints."""
    code, printed, complaints = cluster.try_tool(str(tool[0]), *tool[1:])
    assert code != 0, printed
    return printed + complaints


def await_printed(cluster: KraftCluster, wanted: str, *tool: object) -> str:
    """Until a tool prints that: what it prints."""
    return _await(cluster, lambda printed: wanted in printed, *tool)


def await_not_printed(cluster: KraftCluster, unwanted: str, *tool: object) -> str:
    """Until a tool prints that no more: what it prints."""
    return _await(cluster, lambda printed: unwanted not in printed, *tool)


def _await(cluster: KraftCluster, holds: Callable[[str], bool], *tool: object) -> str:
    printed = ""

    def ask() -> bool:
        nonlocal printed
        printed = cluster.tool(str(tool[0]), *tool[1:])
        return holds(printed)

    until(ask, lambda: printed, within_s=120)
    return printed


# Errors that brokers log under Kafka's own controllers too, and when.
KNOWN: Final = (
    # A broker gets its first replica of a partition whose topic it knows (ReplicaManager.getOrCreatePartition).
    "to exist, but it was missing. Creating...",
    # A producer has several requests under way; the first reaches a broker that does not lead yet. It sends all again.
    "OutOfOrderSequenceException",
    # Markers of a transaction's coordinator that was killed or moved arrive behind those of the one that followed it: a
    # leader refuses the zombie's (ProducerAppendInfo.checkCoordinatorEpoch). That transactions are whole is read back.
    "TransactionCoordinatorFencedException",
    # A topic is deleted while the broker still loads a partition of __consumer_offsets that it has begun to lead
    # (GroupCoordinatorService.onMetadataUpdate).
    "Unable to cleanup state for the deleted topics",
    "due to: The coordinator is loading",
    # The broker itself refuses a setting; it asks no controller.
    "ConfigAdminManager",
)


def complaints_of(nodes: Sequence[Node]) -> list[str]:
    """All that these logged as errors, since their first start, each with the line that follows; but what is KNOWN."""
    found = []
    for node in nodes:
        lines = [*node.log.read_text(errors="replace").splitlines(), ""]
        for line, following in pairwise(lines):
            text = f"{line} | {following}"
            is_error = re.search(r"\] (ERROR|FATAL|CRITICAL) ", line) or line.startswith("Traceback")
            if is_error and not any(each in text for each in KNOWN):
                found.append(f"{node.name}: {text}")
    return found


def assert_no_complaints(cluster: KraftCluster) -> None:
    """The cluster stops; its controllers and brokers logged no error."""
    cluster.stop()
    found = complaints_of([*cluster.controllers, *cluster.brokers])
    assert found == [], "\n".join(found)
