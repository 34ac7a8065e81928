"""Recordings of real KRaft controllers: each topic that they placed is placed here, from the same random sequence."""

from collections import Counter
from collections.abc import Iterator

import pytest

import cases
from kcore.errors import PlacementError
from kcore.protocol_errors import Errors
from kcore.replication.java_random import JavaRandom
from kcore.replication.kraft_placement import new_partitions, usable_brokers
from kcore.replication.placement import place_striped
from kcore.types import Int32s
from replication.story_states import Record, StoryState

DEFAULT = -1
NO_BROKERS = "Unable to replicate the partition"  # Errors of the placer, or of a placement without an active broker.


class Placer:
    """Draws random numbers as the recorded controller does, for each topic that reaches its placer."""

    def __init__(self, story: Record) -> None:
        self.config = story["config"]
        self.state = StoryState(story)
        self.random = JavaRandom(story["placementSeed"])
        self.shutting_down: set[int] = set()  # By heartbeats.
        self.counts: Counter[str] = Counter()

    def place(self, partitions: int, replication_factor: int) -> Int32s | None:
        """Replicas, or None where there are too few brokers."""
        level = self.state.settings().level
        usable = usable_brokers(self.state.broker_table(), level, shutting_down=self.shutting_down)
        try:
            return place_striped(*usable, partitions, replication_factor, self.random)
        except PlacementError:
            self.counts["refused"] += 1
            return None

    def check(self, placed: Int32s | None, made: dict[int, Record], first: int, is_fine: bool) -> None:
        """Compare the placement with its PartitionRecords, if there are any (validateOnly)."""
        if placed is None or not made:
            assert placed is not None or not is_fine
            return
        begun = new_partitions(self.state.broker_table(), self.state.settings().level, placed)
        for at, replicas in enumerate(placed.tolist()):
            record = made[first + at]
            assert replicas == record["replicas"]
            assert [broker for broker in begun.isr__pi[at].tolist() if broker >= 0] == record["isr"]
            assert begun.leaders[at] == record["leader"]
            if record.get("directories"):
                assert begun.directories__ps[at].tolist() == [self.state.directory(d) for d in record["directories"]]
            self.counts["partitions"] += 1

    def create_topics(self, step: Record, made: dict[str, dict[int, Record]]) -> None:
        results = {each["name"]: each for each in step["response"]["topics"]}
        for topic in step["request"]["topics"]:
            if topic["assignments"] or not (result := results.get(topic["name"])):
                continue
            is_fine, message = result["errorCode"] == Errors.NONE, result.get("errorMessage") or ""
            if is_fine or message.startswith(NO_BROKERS):
                count, factor = topic["numPartitions"], topic["replicationFactor"]
                count = int(self.config.get("num.partitions", 1)) if count == DEFAULT else count
                factor = int(self.config.get("default.replication.factor", 1)) if factor == DEFAULT else factor
                self.check(self.place(count, factor), made.get(topic["name"], {}), 0, is_fine)

    def create_partitions(self, step: Record, made: dict[str, dict[int, Record]]) -> None:
        results = {each["name"]: each["errorCode"] for each in step["response"]["results"]}
        for topic in step["request"]["topics"]:
            error = results.get(topic["name"])
            if topic["assignments"] is None and error in (Errors.NONE, Errors.INVALID_REPLICATION_FACTOR):
                named = self.state.partitions.items()
                known = {index: p for (each, index), p in named if self.state.topics[each] == topic["name"]}
                placed = self.place(topic["count"] - len(known), len(known[0]["replicas"]))
                self.check(placed, made.get(topic["name"], {}), len(known), error == Errors.NONE)

    def follow(self, step: Record, records: list[Record]) -> None:
        """The next record of the log, and the brokers that shut down."""
        for record in records:
            kind, fields = record["type"], record["json"]
            self.state.apply(kind, fields)
            begins = kind == "RegisterBrokerRecord" and fields.get("fenced", True)
            if begins or kind == "UnregisterBrokerRecord" or fields.get("fenced", 0) == 1:
                self.shutting_down.discard(fields.get("brokerId", DEFAULT))
        if step.get("renounced"):
            self.shutting_down.clear()  # The next active controller starts with an empty set.
        if step.get("api") == "BrokerHeartbeat" and (step["response"] or {}).get("errorCode") == Errors.NONE:
            broker = {step["request"]["brokerId"]}
            if step["response"]["isFenced"]:
                self.shutting_down -= broker
            elif step["request"].get("wantShutDown"):
                self.shutting_down |= broker


def made_by_topic(state: StoryState, records: list[Record]) -> dict[str, dict[int, Record]]:
    """The PartitionRecords by the topic's name and the partition's index."""
    names = state.topics | {each["json"]["topicId"]: each["json"]["name"] for each in of_type(records, "TopicRecord")}
    made: dict[str, dict[int, Record]] = {}
    for record in of_type(records, "PartitionRecord"):
        made.setdefault(names[record["json"]["topicId"]], {})[record["json"]["partitionId"]] = record["json"]
    return made


def of_type(records: list[Record], kind: str) -> Iterator[Record]:
    return (record for record in records if record["type"] == kind)


@pytest.mark.recorded
@pytest.mark.parametrize("release", ["4.3.1", "4.1.2", "3.9.1"])
def test_every_placement_of_every_story(release: str) -> None:
    counts: Counter[str] = Counter()
    for story in cases.load(f"controller_stories_{release}"):
        placer = Placer(story)
        placer.follow({}, [record for batch in story["bootstrap"] for record in batch["records"]])
        for number, step in enumerate(story["steps"]):
            records = [record for batch in step["batches"] for record in batch["records"]]
            if step.get("response") and step["request"] and step["api"] in ("CreateTopics", "CreatePartitions"):
                create = {"CreateTopics": placer.create_topics, "CreatePartitions": placer.create_partitions}
                try:
                    create[step["api"]](step, made_by_topic(placer.state, records))
                except AssertionError as error:
                    raise AssertionError(f"{story['story']}/{number}") from error
            placer.follow(step, records)
        counts += placer.counts
    assert counts["partitions"] > 200 and counts["refused"] > 5
