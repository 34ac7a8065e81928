"""Recordings of real KRaft controllers: each PartitionChangeRecord of a request or a dead session equals ours."""

import json
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import cases
from kcore.metadata.table.partition_table import PartitionTable
from kcore.protocol_errors import Errors
from kcore.replication import kraft_events as events
from kcore.replication import kraft_moves as moves
from kcore.replication.kraft_changes import KraftSettings
from kcore.replication.kraft_results import KraftElections
from kcore.types import Int32s, Uuid
from replication.kraft_tables import Partition, broker_rows, records_of, rows_in
from replication.story_states import Key, Record, StoryState

EPOCHS_SINCE, TOPIC_IDS_SINCE = 3, 2  # AlterPartition
FENCE, UNFENCE = 1, -1  # BrokerRegistrationChangeRecord.fenced


class Step:
    """A request with the state before it."""

    def __init__(self, state: StoryState, step: Record, records: Sequence[Record]) -> None:
        self.state, self.step, self.records = state, step, records
        self.request, self.response = step["request"], step["response"]
        self.keys = state.keys()

    def prepare(self) -> tuple[PartitionTable, KraftSettings]:
        """The table of the state before; made when all directories have rows."""
        return self.state.table(), self.state.settings()

    def row(self, topic: str, partition: int) -> int:
        return self.keys.index((topic, partition))

    def topic_id(self, name: str) -> str:
        [found] = [topic for topic, known in self.state.topics.items() if known == name]
        return found


def on_broker_heartbeat(step: Step) -> list[KraftElections]:
    broker = step.request["brokerId"]
    offline = [step.state.directory(each) for each in step.request.get("offlineLogDirs") or []]
    table, settings = step.prepare()
    changes = [each["json"] for each in step.records if each["type"] == "BrokerRegistrationChangeRecord"]
    found = []
    for change in changes:
        if change.get("fenced", 0) == UNFENCE:
            found.append(events.broker_unfenced(table, settings, broker))
        elif change.get("fenced", 0) == FENCE or change.get("inControlledShutdown", 0) == 1:
            found.append(events.brokers_fenced(table, settings, [broker]))
    if step.request.get("wantShutDown") and not found:  # It is in controlled shutdown, and leads again.
        found.append(events.brokers_fenced(table, settings, [broker]))
    if offline:
        found.append(events.replicas_lost(table, settings, broker, rows_in(table, broker, offline)))
    return found


def on_broker_registration(step: Step) -> list[KraftElections]:
    broker = step.request["brokerId"]
    known = step.state.brokers.get(broker, {"epoch": -2, "incarnation_id": None})
    if known["incarnation_id"] == Uuid(step.request["incarnationId"]):
        return []  # It only registered again.
    clean = step.request.get("previousBrokerEpoch", -1) == known["epoch"]
    return [events.broker_registered(*step.prepare(), broker, clean_shutdown=clean)]


def on_unregister_broker(step: Step) -> list[KraftElections]:
    return [events.broker_unregistered(*step.prepare(), step.request["brokerId"])]


def on_elect_leaders(step: Step) -> list[KraftElections]:
    named = step.request["topicPartitions"]
    rows = range(len(step.keys))
    if named is not None:
        known = {(step.state.topics[topic], index): row for row, (topic, index) in enumerate(step.keys)}
        asked = {(topic["topic"], index) for topic in named for index in topic["partitions"]}
        rows = sorted(known[each] for each in asked & known.keys())
    chosen = np.array(rows, np.int32)
    return [events.leaders_elected(*step.prepare(), chosen, unclean=step.request.get("electionType") == 1)]


def on_alter_partition(step: Step) -> list[KraftElections]:
    version, wanted = step.step["version"], {}
    for topic, answer in zip(step.request["topics"], step.response["topics"], strict=True):
        for partition, result in zip(topic["partitions"], answer["partitions"], strict=True):
            # NEW_LEADER_ELECTED comes with a record, where the ISR ends a reassignment that removes the leader.
            if result["errorCode"] not in (Errors.NONE, Errors.NEW_LEADER_ELECTED):
                continue
            topic_id = topic["topicId"] if version >= TOPIC_IDS_SINCE else step.topic_id(topic["topicName"])
            members = partition.get("newIsrWithEpochs") if version >= EPOCHS_SINCE else partition["newIsr"]
            isr = [each["brokerId"] if version >= EPOCHS_SINCE else each for each in members]
            wanted[step.row(topic_id, partition["partitionIndex"])] = isr, partition.get("leaderRecoveryState", 0)
    table, settings = step.prepare()
    rows = sorted(wanted)
    isrs = broker_rows(table.brokers, [wanted[row][0] for row in rows])
    recovery = np.array([wanted[row][1] for row in rows], np.int8)
    return [events.isrs_altered(table, settings, np.array(rows, np.int32), isrs, recovery)]


def on_alter_partition_reassignments(step: Step) -> list[KraftElections]:
    begun: dict[int, list[int]] = {}
    cancelled: list[int] = []
    for topic, answer in zip(step.request["topics"], step.response["responses"], strict=True):
        for partition, result in zip(topic["partitions"], answer["partitions"], strict=True):
            if result["errorCode"] != Errors.NONE:
                continue
            row = step.row(step.topic_id(topic["name"]), partition["partitionIndex"])
            if partition["replicas"] is None:
                cancelled.append(row)
            else:
                begun[row] = partition["replicas"]
    table, settings = step.prepare()
    rows: Int32s = np.array(sorted(begun), np.int32)
    replicas = broker_rows(table.brokers, [begun[row] for row in rows.tolist()])
    back = moves.reassignments_cancelled(table, settings, np.array(sorted(cancelled), np.int32))
    assert not len(back.refused)
    return [moves.reassignments_begun(table, settings, rows, replicas), back.changes]


def on_assign_replicas_to_dirs(step: Step) -> list[KraftElections]:
    assigned: dict[int, int] = {}
    for directory, answer in zip(step.request["directories"], step.response["directories"], strict=True):
        for topic, topic_answer in zip(directory["topics"], answer["topics"], strict=True):
            for partition, result in zip(topic["partitions"], topic_answer["partitions"], strict=True):
                if result["errorCode"] == Errors.NONE:
                    row = step.row(topic["topicId"], partition["partitionIndex"])
                    assigned[row] = step.state.directory(directory["id"])
    table, settings = step.prepare()
    rows = np.array(sorted(assigned), np.int32)
    directories = np.array([assigned[row] for row in rows.tolist()], np.int32)
    broker_id = step.request["brokerId"]
    lost = rows[~moves.are_online(table, broker_id, directories)]
    return [
        moves.directories_assigned(table, settings, broker_id, rows, directories),
        events.replicas_lost(table, settings, broker_id, lost),
    ]


HANDLERS: dict[str, Callable[[Step], list[KraftElections]]] = {
    "BrokerHeartbeat": on_broker_heartbeat,
    "BrokerRegistration": on_broker_registration,
    "UnregisterBroker": on_unregister_broker,
    "ElectLeaders": on_elect_leaders,
    "AlterPartition": on_alter_partition,
    "AlterPartitionReassignments": on_alter_partition_reassignments,
    "AssignReplicasToDirs": on_assign_replicas_to_dirs,
}


def compared(decided: Sequence[KraftElections], keys: Sequence[Key]) -> list[tuple[Key, str]]:
    """Decisions as a sorted list."""
    return _sorted([(keys[row], record) for each in decided for row, record in records_of(each).items()])


def _sorted(changes: Sequence[tuple[Key, Partition]]) -> list[tuple[Key, str]]:
    return sorted((key, json.dumps(record, sort_keys=True)) for key, record in changes)


def recorded(state: StoryState, records: Sequence[Record]) -> list[tuple[Key, str]]:
    """The PartitionChangeRecords among the records, as such a list."""
    changes = [each["json"] for each in records if each["type"] == "PartitionChangeRecord"]
    return _sorted([((each["topicId"], each["partitionId"]), state.change(each)) for each in changes])


def check_request(state: StoryState, step: Record, records: Sequence[Record]) -> int:
    """How many changes were compared."""
    handler = HANDLERS.get(step.get("api", ""))
    if handler is None or not records or not state.partitions or step.get("renounced") or not step["request"]:
        return 0
    wanted = recorded(state, records)
    asked = Step(state, step, records)
    assert compared(handler(asked), asked.keys) == wanted
    return len(wanted)


def check_dead_sessions(state: StoryState, records: Sequence[Record]) -> int:
    """Replay what happened while time passed; returns how many changes of fenced brokers were compared.

    The changes stand right before the record that fences the broker; elections by a timer may precede them.
    """
    checked, waiting = 0, list[Record]()
    for record in records:
        waiting.append(record)
        if record["type"] != "BrokerRegistrationChangeRecord" or record["json"].get("fenced", 0) != FENCE:
            continue
        while True:
            fenced = [events.brokers_fenced(state.table(), state.settings(), [record["json"]["brokerId"]])]
            if (decided := compared(fenced, state.keys())) == recorded(state, waiting):
                break
            assert waiting[:-1], f"broker {record['json']['brokerId']} is fenced"
            state.apply(waiting[0]["type"], waiting.pop(0)["json"])
        checked += len(decided)
        while waiting:
            state.apply(waiting[0]["type"], waiting.pop(0)["json"])
    for each in waiting:
        state.apply(each["type"], each["json"])
    return checked


@pytest.mark.recorded
@pytest.mark.parametrize("release", [pytest.param("4.3.1", marks=pytest.mark.long), "4.1.2", "3.9.1"])
def test_every_change_of_every_story(release: str) -> None:
    compared_records: Counter[str] = Counter()
    stories = cases.load(f"controller_stories_{release}")
    for story in stories:
        state = StoryState(story)
        for batch in story["bootstrap"]:
            for record in batch["records"]:
                state.apply(record["type"], record["json"])
        for number, step in enumerate(story["steps"]):
            records = [record for batch in step["batches"] for record in batch["records"]]
            try:
                if step["kind"] == "advance":
                    compared_records["dead sessions"] += check_dead_sessions(state, records)
                    continue
                compared_records[step["api"] or ""] += check_request(state, step, records)
            except AssertionError as error:
                raise AssertionError(f"{story['story']}/{number}") from error
            for record in records:
                state.apply(record["type"], record["json"])
    assert sum(compared_records.values()) > 5 * len(stories)
    never = {"BrokerRegistration"} if release == "3.9.1" else set()  # Not at the levels of those stories.
    assert {*HANDLERS, "dead sessions"} - never <= {api for api, count in compared_records.items() if count}
