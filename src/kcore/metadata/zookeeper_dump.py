"""A ZooKeeper tree as text, one node a line, read as a cluster.

A line is `path TAB version=0 cversion=0 czxid=4 mzxid=4 [ephemeralOwner=0x1] TAB data`, where `<null>` is no data.
Kafka's layout of the nodes is ZkData.scala's (3.9).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kcore.constants import NO_EPOCH, NO_LEADER, RECOVERED
from kcore.errors import TableError
from kcore.metadata.arrays import Array, as_integers, padded
from kcore.metadata.broker_table import SECURITY_PROTOCOLS, BrokerTable, Endpoint
from kcore.metadata.table_arrays import TableArrays
from kcore.metadata.topics import TopicTable
from kcore.types import ZERO_UUID, Uuid

_LINE: Final = r"(/[^\t]*)\tversion=(\d+) cversion=-?\d+ czxid=(\d+) mzxid=\d+(?: ephemeralOwner=\w+)?\t(.*)"
_ENDPOINT: Final = r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d+)"  # SocketServerConfigs' own.
_NO_STATE: Final[dict[str, Any]] = {
    "leader": NO_LEADER,
    "isr": [],
    "leader_epoch": NO_EPOCH,
    "controller_epoch": NO_EPOCH,
}


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree: its data and the two numbers that Kafka reads beside it."""

    version: int  # The partition epoch, for a state node.
    czxid: int  # The broker epoch, for a broker's node (KIP-380).
    data: str

    def json(self, path: str) -> dict[str, Any]:
        """The data as a JSON object; TableError if it is not one."""
        try:
            value = json.loads(self.data)
        except (ValueError, RecursionError) as error:
            raise TableError(f"{path}: {error}") from error
        if not isinstance(value, dict):
            raise TableError(f"{path}: not a JSON object")
        return value


@dataclass(frozen=True, slots=True)
class ZookeeperDump:
    """A cluster as its dump has it: who controls it, under which epoch, and the arrays of its table."""

    controller_id: int  # -1 for none
    controller_epoch: int
    arrays: TableArrays


def parse_zookeeper_dump(text: str) -> ZookeeperDump:
    """Reads brokers, topics, assignments, partition states and the controller; other nodes are passed over.

    A partition without a state node (its topic was made a moment ago) has no leader, an empty ISR and epochs -1.
    A broker that is named but not registered is not live. TableError names the line or the node
    that is not as Kafka writes it.
    """
    nodes = _nodes(text)
    if "/brokers/ids" not in nodes or "/brokers/topics" not in nodes:
        raise TableError("not a ZooKeeper dump of Kafka: no /brokers/ids, /brokers/topics")
    try:
        controller = nodes["/controller"].json("/controller")["brokerid"] if "/controller" in nodes else NO_LEADER
        epoch = int(nodes["/controller_epoch"].data) if "/controller_epoch" in nodes else 0
        return ZookeeperDump(int(controller), epoch, _arrays(nodes))
    except TableError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise TableError(f"a node of the ZooKeeper dump is not as Kafka writes it: {error!r}") from error


def _nodes(text: str) -> dict[str, Node]:
    nodes = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line:
            continue
        if (match := re.fullmatch(_LINE, line)) is None:
            raise TableError(f"line {number} is not a ZooKeeper node: {line[:60]!r}")
        path, version, czxid, data = match.groups()
        nodes[path] = Node(int(version), int(czxid), data)
    return nodes


def _children(nodes: dict[str, Node], parent: str) -> list[str]:
    prefix = f"{parent}/"
    return [path[len(prefix) :] for path in nodes if path.startswith(prefix) and "/" not in path[len(prefix) :]]


def _arrays(nodes: dict[str, Node]) -> TableArrays:
    names = sorted(_children(nodes, "/brokers/topics"))
    assignments = {name: nodes[f"/brokers/topics/{name}"].json(f"/brokers/topics/{name}") for name in names}
    partitions = [
        (row, name, int(partition))
        for row, name in enumerate(names)
        for partition in sorted(assignments[name]["partitions"], key=int)
    ]
    replicas = [assignments[name]["partitions"][str(partition)] for _, name, partition in partitions]
    paths = [f"/brokers/topics/{name}/partitions/{partition}/state" for _, name, partition in partitions]
    states = [nodes[path].json(path) if path in nodes else _NO_STATE for path in paths]
    isrs = [state["isr"] for state in states]
    leaders = [state["leader"] for state in states]
    return TableArrays(
        replicas=_lists(replicas),
        isr=_lists(isrs),
        leaders=_numbers(leaders),
        leader_epochs=_numbers(state["leader_epoch"] for state in states),
        partition_epochs=_numbers(nodes[path].version if path in nodes else NO_EPOCH for path in paths),
        controller_epochs=_numbers(state["controller_epoch"] for state in states),
        leader_recovery_states=_numbers(state.get("leader_recovery_state", RECOVERED) for state in states),
        topics=TopicTable(names, [_uuid(assignments[name].get("topic_id")) for name in names]),
        topic_rows=_numbers(row for row, _, _ in partitions),
        partition_indexes=_numbers(partition for _, _, partition in partitions),
        brokers=_brokers(nodes, {*leaders, *(broker for each in (*replicas, *isrs) for broker in each)}),
        adding=_moves(assignments, partitions, "adding_replicas"),
        removing=_moves(assignments, partitions, "removing_replicas"),
    )


def _moves(assignments: dict[str, Any], partitions: list[tuple[int, str, int]], key: str) -> dict[int, list[int]]:
    moves = ((row, assignments[name].get(key, {}).get(str(part))) for row, (_, name, part) in enumerate(partitions))
    return {row: brokers for row, brokers in moves if brokers}


def _brokers(nodes: dict[str, Node], named: set[int]) -> BrokerTable:
    registered = {int(name): nodes[f"/brokers/ids/{name}"] for name in _children(nodes, "/brokers/ids")}
    ids = sorted((named | registered.keys()) - {NO_LEADER})
    details = {broker: node.json(f"/brokers/ids/{broker}") for broker, node in registered.items()}
    return BrokerTable.from_arrays(
        np.array(ids, np.int64),
        live=np.array([broker in registered for broker in ids], np.bool_),
        epochs=_numbers(registered[broker].czxid if broker in registered else NO_EPOCH for broker in ids),
        racks=[details.get(broker, {}).get("rack") for broker in ids],
        endpoints=[_endpoints(details[broker]) if broker in details else () for broker in ids],
    )


def _endpoints(broker: dict[str, Any]) -> list[Endpoint]:
    if "endpoints" not in broker:  # Version 1 of the node.
        return [Endpoint(int(broker["port"]), str(broker["host"]), "PLAINTEXT", SECURITY_PROTOCOLS["PLAINTEXT"])]
    protocols = broker.get("listener_security_protocol_map", {})
    endpoints = []
    for text in broker["endpoints"]:
        if (match := re.fullmatch(_ENDPOINT, text)) is None:
            raise TableError(f"{text!r} is not an endpoint")
        listener, host, port = match.groups()
        protocol = protocols.get(listener, listener)  # Before version 4 a listener is named after its protocol.
        endpoints.append(Endpoint(int(port), host, listener, SECURITY_PROTOCOLS[protocol]))
    return endpoints


def _uuid(text: str | None) -> Uuid:
    return ZERO_UUID if text is None else Uuid(text)


def _numbers(values: Iterable[int]) -> Array:
    numbers = np.array(list(values))
    return numbers if numbers.size else np.empty(0, np.int64)


def _lists(lists: list[list[int]]) -> Array:
    values = _numbers(broker for brokers in lists for broker in brokers)
    offsets = np.cumsum([0, *map(len, lists)])
    return padded(offsets, as_integers("broker ids", values, np.int32, values.shape))
