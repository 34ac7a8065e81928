"""Ten events after each other on a small cluster, as Kafka's ReplicationControlManager decided them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import cases
from kcore.metadata.table.broker_registration import BrokerRegistration
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.partition_table import PartitionTable
from kcore.replication import kraft_events as events
from kcore.replication.kraft_changes import KraftSettings, Setting
from kcore.replication.kraft_results import KraftElections
from kcore.replication.levels import level_of
from reference import partition_change as twin
from replication.kraft_tables import Partition, kraft_table, records_of
from replication.recorded_partition_changes import RELEASES, Case


def partitions_of(case: Case) -> list[Partition]:
    """The partitions before the first event."""
    empty: Partition = {name: [] for name in ("elr", "last_known_elr", "removing", "adding")}
    numbers = {"leader_epoch": 5, "partition_epoch": 7, "recovery": 0}
    return [
        empty | numbers | given | {"topic": topic, "index": index, "directories": [0] * len(given["replicas"])}
        for topic, each in enumerate(case["topics"])
        for index, given in enumerate(each["partitions"])
    ]


def settings_of(case: Case, release: str) -> KraftSettings:
    """Settings of the cluster, and one setting a topic."""
    major, minor, revision = case["metadata_version"].removeprefix("IBP_").split("_")
    return KraftSettings(
        level_of(f"{major}.{minor}-{revision}@{release}"),
        elr_enabled=case["elr_enabled"],
        unclean=Setting.by_topic(np.array([topic["unclean"] for topic in case["topics"]], np.uint8)),
        min_isr=Setting.by_topic(np.array([topic["min_isr"] for topic in case["topics"]], np.int32)),
    )


def decide(event: Case, table: PartitionTable, settings: KraftSettings) -> KraftElections:
    """The changes of the event."""
    broker = event.get("broker")
    if event["event"] in ("fence", "controlled_shutdown"):
        return events.brokers_fenced(table, settings, [broker])
    if event["event"] == "unfence":
        return events.broker_unfenced(table, settings, broker)
    if event["event"] == "unclean_shutdown":
        return events.broker_registered(table, settings, broker, clean_shutdown=False)
    rows = np.arange(len(table), dtype=np.int32)
    return events.leaders_elected(table, settings, rows, unclean={"elect_unclean_all": True}.get(event["event"], False))


def expected(event: Case, partitions: Sequence[Partition]) -> dict[int, Partition]:
    """The recorded changes by row."""
    places = {(p["topic"], p["index"]): row for row, p in enumerate(partitions)}
    unnamed: dict[str, Any] = {"leader": -2, "leader_recovery_state": -1}
    return {
        places[change["t"], change["p"]]: {
            {"leader_recovery_state": "recovery"}.get(name, name): value
            for name, value in change.items()
            if name not in ("t", "p") and value is not None and value != unnamed.get(name)
        }
        for change in event["changes"]
    }


@pytest.mark.recorded
@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_scenario(release: str) -> None:
    recorded = cases.load(f"kraft_rcm_{release}")
    assert recorded
    for case in recorded:
        partitions, settings = partitions_of(case), settings_of(case, release)
        fenced: set[int] = set()
        shutting_down: set[int] = set()
        for at, event in enumerate(case["events"]):
            brokers = BrokerTable.from_arrays(np.arange(case["brokers"]))
            for broker in range(case["brokers"]):
                state = {"fenced": broker in fenced, "in_controlled_shutdown": broker in shutting_down}
                brokers.put(BrokerRegistration(broker, 1, **state))
            changes = records_of(decide(event, kraft_table(partitions, brokers), settings))
            assert changes == expected(event, partitions), (case["i"], at)
            partitions = [twin.after(p, changes[row]) if row in changes else p for row, p in enumerate(partitions)]
            fenced |= {event["broker"]} if event["event"] == "fence" else set()
            fenced -= {event["broker"]} if event["event"] == "unfence" else set()
            shutting_down |= {event["broker"]} if event["event"] == "controlled_shutdown" else set()
        for state in case["events"][-1]["state"]:
            [p] = [p for p in partitions if (p["topic"], p["index"]) == (state["t"], state["p"])]
            names = {"isr", "elr", "last_known_elr", "leader", "leader_epoch", "partition_epoch"}
            assert {name: p[name] for name in names} == {name: state[name] for name in names}, case["i"]
            assert p["recovery"] == state["leader_recovery_state"]
