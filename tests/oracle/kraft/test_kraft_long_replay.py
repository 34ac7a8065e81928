"""A standby of kcore's with 200,000 records in its log and no snapshot restarts under a real Kafka broker.

It replays in parts, so that it answers votes, its metrics page and `/ready` meanwhile. The length of its turns depends
on the machine: it is printed and not asserted.
"""

import asyncio
import subprocess
from collections.abc import Iterator
from random import Random
from shutil import copy, rmtree

import pytest

from kcore.constants import METADATA_TOPIC
from kcore.raft.membership.replicas import Address
from kcore.schema.cluster_metadata import MetadataRequest
from kcore.schema.raft_votes import VoteRequest, VoteRequestPartitionData, VoteRequestTopicData, VoteResponse
from kcore.server.quorum_node.describe import describe_quorum
from kcore.storage.raft.file_raft_log import DiskRaftLog
from kcore.types import Uuid
from oracle.chaos.kraft_checks import active_controller
from oracle.chaos.kraft_long_logs import FOLDER, RECORDS, lengthen
from oracle.chaos.kraft_pages import Page, asked, create_topics, led_topics, send
from oracle.kafka_tools import TOPICS
from oracle.kcore_brokers import until
from oracle.kraft_clusters import KraftCluster, Node
from oracle.raft_quorums import KCORE as QUORUM

NO_SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots=1000000000\nmetadata.log.max.snapshot.interval.ms=0\n"
VOTERS_ALONE = f"{0:020}-{0:010}.checkpoint"  # As the format writes it.
PARTITIONS = 20
MOST_BATCHES_A_PART = 32
HIGH_WATERMARK = "kafka_server_raft_metrics_high_watermark"
EPOCH = "kafka_server_raft_metrics_current_epoch"
LEADER = "kafka_server_raft_metrics_current_leader"
PARTS = ('kcore_event_seconds_count{kind="catch up"}', 'kcore_event_seconds_count{kind="replay continued"}')


class LongLogs(KraftCluster):
    """Three controllers whose logs become long, one broker of Kafka's with a topic of 20 partitions."""

    def __init__(self) -> None:
        super().__init__(controllers=3, brokers=1, properties=NO_SNAPSHOTS, real=[])
        [self.broker] = self.brokers
        self.pages = {node.node_id: Page(node) for node in self.controllers}

    def become_long(self) -> int:
        """All controllers stop, and start again with the same long log; returns its batches."""
        create_topics(self.broker.address, "t", partitions=PARTITIONS)
        until(lambda: "t" in led_topics(self.broker.address), lambda: "no topic")
        [topic] = asyncio.run(send(self.broker.address, MetadataRequest(topics=None))).topics
        for node in self.controllers:
            node.terminate()
        longest = max(self.controllers, key=log_end)
        count = lengthen(longest.data, "t", Uuid(topic.topic_id), PARTITIONS)
        for node in self.controllers:
            if node is not longest:
                copy(longest.data / "recovery-point-offset-checkpoint", node.data)
                take_log(longest, node)
        for node in self.controllers:
            node.start(wait=False)
        for node in self.controllers:
            node.await_ready()
        until(lambda: all(page.is_ready() for page in self.pages.values()), self.figures, within_s=400)
        snapshots = [path.name for path in self.folder.glob(f"*/data/{FOLDER}/*.checkpoint")]
        assert {*snapshots} == {VOTERS_ALONE}, "no snapshot shortens the replay"
        return count

    def figures(self) -> list[dict[str, float]]:
        return [page.figures() for page in self.pages.values()]


def log_end(node: Node) -> tuple[int, int]:
    """The last epoch of its log, and the end: the log of the highest has all that is committed."""
    with DiskRaftLog(node.data / FOLDER) as log:
        return log.last_epoch, log.end_offset


def take_log(source: Node, target: Node) -> None:
    """All but the vote."""
    vote = (target.data / FOLDER / "quorum-state").read_bytes()
    rmtree(target.data / FOLDER)
    (target.data / FOLDER).mkdir()
    for path in (source.data / FOLDER).iterdir():
        copy(path, target.data / FOLDER)
    (target.data / FOLDER / "quorum-state").write_bytes(vote)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LongLogs]:
    with LongLogs() as started:
        yield started


def pre_vote(cluster: LongLogs, voter: Node, candidate: Node, epoch: int) -> VoteResponse:
    """Would it vote? Changes nothing, and is answered at once (KIP-996)."""
    partition = VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate.node_id,
        replica_directory_id=Uuid(candidate.directory_id),
        voter_directory_id=Uuid(voter.directory_id),
        last_offset_epoch=epoch,
        last_offset=1 << 40,
        pre_vote=True,
    )
    topics = [VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    request = VoteRequest(cluster_id=cluster.cluster_id, voter_id=voter.node_id, topics=topics)
    return asked(voter.address, request, VoteResponse)


def quorum_wait(node: Node) -> None:
    done = subprocess.run(
        [*QUORUM, "wait", node.address, "--timeout", "120"], capture_output=True, text=True, check=False, timeout=180
    )
    assert (done.returncode, done.stdout) == (0, "ready\n"), done.stderr


def is_replaying(page: Page) -> bool:
    """It knows how far the log is committed, and is not that far."""
    figures = page.figures()
    return figures.get(HIGH_WATERMARK, -1) >= RECORDS and figures["kcore_ready"] == 0


def test_a_standby_replays_in_parts_and_answers_meanwhile(cluster: LongLogs) -> None:
    batches = cluster.become_long()
    active = active_controller(cluster)
    standby, third = (node for node in cluster.controllers if node is not active)
    page, pages, votes = cluster.pages[standby.node_id], 0, 0
    assert standby.terminate() == 0
    standby.start()
    until(lambda: is_replaying(page), page.figures)
    while not page.is_ready():
        response = pre_vote(cluster, standby, third, int(cluster.pages[active.node_id].figures()[EPOCH]))
        [partition] = response.topics[0].partitions
        assert (response.error_code, partition.error_code, partition.vote_granted) == (0, 0, False), response
        votes += 1
        pages += page.figures()["kcore_loop_answers"] == 1
    quorum_wait(standby)
    figures = page.figures()
    parts = sum(figures.get(name, 0) for name in PARTS)
    longest = figures["kcore_loop_turn_longest_seconds"] * 1000
    print(f"{RECORDS:,} records in {batches:,} batches: {parts:,.0f} parts, the longest turn {longest:.1f} ms")
    print(f"meanwhile {votes} votes and {pages} metrics pages; longest by kind, in ms:")
    by_kind = {name: value for name, value in figures.items() if name.startswith("kcore_event_longest_seconds")}
    for name, value in sorted(by_kind.items(), key=lambda each: -each[1])[:6]:
        print(f"  {name} {value * 1000:.1f}")
    assert parts >= batches / MOST_BATCHES_A_PART
    assert votes >= 3 and pages >= 3
    assert "caught up at offset" in standby.log_text()


def test_a_standby_votes_before_it_has_replayed(cluster: LongLogs) -> None:
    """The active controller is killed meanwhile: neither of the others leads without the other's vote."""
    active = active_controller(cluster)
    others = [node for node in cluster.controllers if node is not active]
    page = cluster.pages[others[0].node_id]
    epoch = page.figures()[EPOCH]
    others[0].terminate()
    others[0].start()
    until(lambda: is_replaying(page), page.figures)
    active.kill()

    def elected() -> bool:
        figures = page.figures()
        return figures.get(EPOCH, 0) > epoch and figures[LEADER] in [node.node_id for node in others]

    until(elected, page.figures, within_s=120)
    print(f"the standby was ready when a leader was elected: {page.is_ready()}")
    quorum = Address("127.0.0.1", others[0].port), Address("127.0.0.1", others[1].port)
    found = asyncio.run(describe_quorum(quorum, controllers=True, timeout_s=60, random=Random()))
    assert found.partition.leader_epoch > epoch
    cluster.tool(TOPICS, "--bootstrap-server", cluster.broker.address, "--create", "--topic", "after")
    until(lambda: {"t", "after"} <= led_topics(cluster.broker.address), lambda: led_topics(cluster.broker.address))
