"""A real cluster for losses: five brokers in three racks, two log directories each, with topics of many forms."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import kcore
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes.local_process import random_uuid
from kcore.measure.storm.replay.events import NewTopic, TopicsCreated, TopicsDeleted
from kcore.measure.storm.replay.initial_state import partitions_of
from kcore.measure.storm.replay.requests import create_topics, delete_topics, errors_of
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import RESERVED
from kcore.schema.structure import Message
from kcore.storage.meta_properties import META_PROPERTIES, MetaProperties, read_meta_properties, write_meta_properties
from kcore.storage.raft.metadata_log import load_metadata
from kcore.types import Uuid
from kcore.whatif import WhatIf
from oracle.kraft_clusters import FIRST_CONTROLLER, HEAP, UNCORDONED, KraftCluster, Node

RACKS: Final = ("a", "b", "c", "a", "b")  # Where the brokers 1 to 5 are.
OF_CONTROLLERS: Final = "auto.leader.rebalance.enable=false\n"  # Leaders stay where a loss has moved them.
OF_BROKERS: Final = f"replica.high.watermark.checkpoint.interval.ms=1000\n{UNCORDONED}"  # A lost directory is noticed.
DIRECTORIES: Final = 2  # That each broker has.
SMALL_HEAP: Final = "192m"
WAIT_S: Final = 240.0
_CALM_S: Final = 1.5  # The metadata log does not change for so long once the controller has decided all.


class State(NamedTuple):
    """A partition's state, as the prediction and the controller have it."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    is_under_min_isr: bool


def states_of(asked: WhatIf) -> dict[str, State]:
    """All partitions by name. Lists are in ascending order."""
    image = ClusterImage(asked.cluster.table)
    under = (asked.cluster.in_sync__p < asked.cluster.min_isr__p).tolist()
    found = {}
    for partition, state in partitions_of(image):
        row = int(image.table.row_of(*partition))
        isr, elr = tuple(sorted(state.isr)), tuple(sorted(state.elr))
        found[str(partition)] = State(state.leader, isr, elr, under[row])
    return found


def topics(random: Random) -> tuple[NewTopic, ...]:
    """Thirty topics: ten with a replica in each rack, twenty with replicas on any brokers."""
    found = []
    for number in range(30):
        is_spread = number < 10
        factor = 3 if is_spread else (1, 2, 3, 3)[number % 4]
        configs: dict[str, str | None] = {"min.insync.replicas": "2" if is_spread else str(1 + number % 2)}
        if number % 10 == 7:
            configs["unclean.leader.election.enable"] = "true"
        replicas = {
            at: tuple(_one_of_each_rack(random) if is_spread else random.sample(range(1, 6), factor))
            for at in range(random.randint(1, 3))
        }
        found.append(NewTopic(f"{'spread' if is_spread else 'free'}-{number}", replicas, configs))
    return tuple(found)


def _one_of_each_rack(random: Random) -> Sequence[int]:
    found = [random.choice([at for at, rack in enumerate(RACKS, 1) if rack == each]) for each in "abc"]
    random.shuffle(found)
    return found


class RackedCluster(KraftCluster):
    """One controller and the brokers. Metadata logs are in directories of their own, so each broker outlives a loss."""

    def __init__(self, *, is_kafka: bool = True) -> None:
        """`is_kafka`: whether all processes are Kafka's, or all are kcore's."""
        super().__init__(
            brokers=len(RACKS),
            properties=OF_CONTROLLERS,
            of_brokers=OF_BROKERS,
            options=("--feature", "eligible.leader.replicas.version=1"),
            log_dirs=DIRECTORIES,
            real=(FIRST_CONTROLLER,) if is_kafka else (),
            kcore_brokers=() if is_kafka else range(1, len(RACKS) + 1),
        )

    def _java(self, place: Path) -> list[object]:
        return [f"-Xmx{SMALL_HEAP}" if each == f"-Xmx{HEAP}" else each for each in super()._java(place)]

    def _broker(self, node_id: int, port: int, second_port: int) -> Node:
        node = super()._broker(node_id, port, second_port)
        metadata = node.folder / "metadata"
        metadata.mkdir()
        write_meta_properties(
            metadata / META_PROPERTIES, MetaProperties(1, self.cluster_id, node_id, Uuid(random_uuid()))
        )
        with node.properties.open("a") as file:
            file.write(f"broker.rack={RACKS[node_id - 1]}\nmetadata.log.dir={metadata}\n")
        return node

    @property
    def log(self) -> Path:
        """The controller's metadata log."""
        return self.controllers[0].data / "__cluster_metadata-0"

    def image(self) -> ClusterImage:
        """The state in the metadata log; a batch that is being written is left out."""
        return load_metadata(self.log, stop=True)

    def settled(self, is_over: Callable[[ClusterImage], bool], what: str) -> ClusterImage:
        """The state once `is_over` holds and the state of the partitions has not changed for a while."""
        end_s = time.monotonic() + WAIT_S
        before, since_s = None, time.monotonic()
        while time.monotonic() < end_s:
            image = self.image()
            if before is None or image.table != before.table or not is_over(image):
                before, since_s = image, time.monotonic()
            elif time.monotonic() - since_s > _CALM_S:
                return image
            time.sleep(0.2)
        assert before is not None
        raise AssertionError(f"{what}: {before.brokers!r} {states_of(kcore.what_if(before))}")

    def whole(self) -> ClusterImage:
        """The state once all brokers are back and all replicas are in sync, in known directories."""
        return self.settled(_is_whole, "the cluster is not whole again")

    def lost(self, broker_ids: Iterable[int]) -> ClusterImage:
        """The state once exactly these brokers are fenced."""
        wanted = {*broker_ids}
        return self.settled(lambda image: _fenced(image) == wanted, f"brokers {wanted} are not fenced")

    @staticmethod
    def directory_id(path: Path) -> str:
        """The id of a log directory, from its meta.properties."""
        return str(read_meta_properties(path / META_PROPERTIES).directory_id)

    def node(self, broker_id: int) -> Node:
        return self.brokers[broker_id - 1]

    def start_again(self, broker_ids: Iterable[int]) -> ClusterImage:
        """Starts the brokers together; returns the state once the cluster is whole."""
        nodes = [self.node(each) for each in broker_ids]
        for node in nodes:
            node.start(wait=False)
        for node in nodes:
            node.await_ready()
        return self.whole()

    def ask(self, request: Message) -> list[str]:
        """Sends a request to the controller; returns the errors in the answer."""

        async def asked() -> list[str]:
            quorum = Quorum([self.controllers[0].address], random=Random())
            await quorum.open()
            try:
                return [each.name for each in errors_of(await quorum.ask(request))]
            finally:
                await quorum.close()

        return asyncio.run(asked())

    def make(self, created: Sequence[NewTopic]) -> None:
        """Creates topics; waits until all replicas are in sync."""
        assert self.ask(create_topics(TopicsCreated(tuple(created)))) == []
        self.whole()

    def delete(self, names: Sequence[str]) -> None:
        """Deletes topics; waits until they are gone."""
        assert self.ask(delete_topics(TopicsDeleted(tuple(names)))) == []
        self.settled(lambda image: not {*names} & {*image.topic_ids}, "topics are still there")


def _is_whole(image: ClusterImage) -> bool:
    table = image.table
    if _fenced(image) or any(len(image.brokers[each].directories) < DIRECTORIES for each in image.brokers):
        return False
    for _, state in partitions_of(image):
        in_sync = state.leader >= 0 and {*state.isr} == {*state.replicas} and not state.elr
        if not in_sync or any(each in RESERVED for each in state.directories):
            return False
    return table.partition_count > 0


def _fenced(image: ClusterImage) -> set[int]:
    return {each for each in image.brokers if image.brokers[each].fenced or image.brokers[each].in_controlled_shutdown}
