"""Kafka's own dumps of metadata logs, replayed by a few lines that know nothing of kcore."""

import json
import re
from pathlib import Path
from typing import Any

LISTS = (
    "replicas",
    "isr",
    "removingReplicas",
    "addingReplicas",
    "directories",
    "eligibleLeaderReplicas",
    "lastKnownElr",
)


def records_of(dump: Path) -> list[tuple[str, dict[str, Any]]]:
    """Type and data of every metadata record in the dump."""
    payloads = re.findall(r"payload: (\{.*\})$", dump.read_text(), re.MULTILINE)
    return [(each["type"], each["data"]) for each in map(json.loads, payloads)]


def replay(records: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The cluster after these records, as plain dictionaries."""
    state: dict[str, Any] = {"brokers": {}, "topics": {}, "partitions": {}, "configs": {}, "features": {}, "ids": -1}
    for kind, data in records:
        if kind == "REGISTER_BROKER_RECORD":
            state["brokers"][data["brokerId"]] = {"inControlledShutdown": False, "logDirs": []} | data
        elif kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            change_broker(state["brokers"][data["brokerId"]], data)
        elif kind == "TOPIC_RECORD":
            state["topics"][data["topicId"]] = data["name"]
        elif kind == "PARTITION_RECORD":
            key = state["topics"][data["topicId"]], data["partitionId"]
            state["partitions"][key] = dict.fromkeys(LISTS, ()) | {"leaderRecoveryState": 0} | data
        elif kind == "PARTITION_CHANGE_RECORD":
            change_partition(state["partitions"][state["topics"][data["topicId"]], data["partitionId"]], data)
        elif kind == "CLEAR_ELR_RECORD":
            for partition in state["partitions"].values():
                partition |= {"eligibleLeaderReplicas": (), "lastKnownElr": ()}
        elif kind == "CONFIG_RECORD":
            state["configs"][data["resourceType"], data["resourceName"], data["name"]] = data["value"]
        elif kind == "FEATURE_LEVEL_RECORD":
            state["features"][data["name"]] = data["featureLevel"]
        elif kind == "PRODUCER_IDS_RECORD":
            state["ids"] = data["nextProducerId"]
    return state


def change_broker(broker: dict[str, Any], data: dict[str, Any]) -> None:
    if data.get("fenced", 0):
        broker["fenced"] = data["fenced"] == 1
    if data.get("inControlledShutdown", 0):
        broker["inControlledShutdown"] = True
    if data.get("logDirs"):
        broker["logDirs"] = data["logDirs"]


def change_partition(partition: dict[str, Any], data: dict[str, Any]) -> None:
    partition |= {name: data[name] for name in LISTS if data.get(name) is not None}
    if data.get("leader", -2) != -2:
        partition |= {"leader": data["leader"], "leaderEpoch": partition["leaderEpoch"] + 1}
    if data.get("leaderRecoveryState", -1) != -1:
        partition["leaderRecoveryState"] = data["leaderRecoveryState"]
    partition["partitionEpoch"] += 1
