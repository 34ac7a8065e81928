"""kcore's brokers under KRaft controllers, Kafka's own and kcore's, beside real ones of Kafka.

The clients are librdkafka's; they consume by partition, since kcore's brokers hold no consumer groups.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from kcore.measure.processes.local_process import free_ports
from kcore.net.connect import connect
from kcore.protocol_errors import Errors
from kcore.schema.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.cluster_metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kcore.schema.structure import Message
from oracle.chaos.kraft_checks import await_printed, refusal
from oracle.kafka_tools import CLUSTER, CONSOLE_CONSUMER, RELEASE
from oracle.kcore_brokers import until
from oracle.kraft_clusters import FIRST_CONTROLLER, KraftCluster, Node
from oracle.librdkafka_clients import CommittedReader, Writer, all_records, configuration

TOPIC: Final = "t"
REPLICAS: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}  # 3 is Kafka's broker.
WITHIN_S: Final = 90.0
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"


class Mixed(KraftCluster):
    """Brokers 1 and 2 are kcore's, broker 3 is Kafka's."""

    def __init__(self, *, real_controllers: bool, log_dirs: Sequence[int] = (1, 1, 1), release: str = RELEASE) -> None:
        self.pages: dict[int, int] = {}  # Ports of pages of metrics, by broker.
        super().__init__(
            controllers=1,
            brokers=3,
            real=[FIRST_CONTROLLER] if real_controllers else [],
            of_brokers="replica.lag.time.max.ms=4000\n",
            log_dirs=log_dirs,
            kcore_brokers=[1, 2],
            release=release,
        )

    def _broker(self, node_id: int, port: int, second_port: int) -> Node:
        made = super()._broker(node_id, port, second_port)
        if self.is_kcore(made):
            self.pages[node_id] = free_ports(1)[0]
            made._command = [*made._command, "--metrics", str(self.pages[node_id])]
        return made

    def create_topic(self) -> None:
        """TOPIC, with REPLICAS."""
        assignment = ",".join(":".join(map(str, replicas)) for replicas in REPLICAS.values())
        self.place(TOPIC, assignment, "--config", "min.insync.replicas=2")
        self.until_whole()

    @property
    def kcore(self) -> list[Node]:
        return self.brokers[:2]

    def broker(self, broker_id: int) -> Node:
        return self.brokers[broker_id - 1]

    # The cluster's state, in the answers of its brokers.

    def seen(self) -> dict[int, tuple[int, frozenset[int]]]:
        """Leader and ISR by partition; nothing while nobody answers."""
        admin = AdminClient(configuration(self.bootstrap))
        try:
            found = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        except Exception:  # A broker of the bootstrap list is down.
            return {}
        return {index: (each.leader, frozenset(each.isrs)) for index, each in found.items()}

    def until(self, holds: Callable[[dict[int, tuple[int, frozenset[int]]]], object]) -> None:
        end_s = time.monotonic() + WITHIN_S
        while not ((seen := self.seen()) and holds(seen)):
            assert time.monotonic() < end_s, (seen, [each.log.read_text()[-1500:] for each in self.brokers])
            time.sleep(0.3)

    def until_led(self, **leaders: int) -> None:
        """By partition, such as p0=2."""
        wanted = {int(name[1:]): leader for name, leader in leaders.items()}
        self.until(lambda seen: all(seen[index][0] == leader for index, leader in wanted.items()))

    def until_whole(self) -> None:
        self.until(lambda seen: all(seen[index][1] == frozenset(REPLICAS[index]) for index in REPLICAS))

    def elect_preferred(self) -> None:
        self.until_whole()
        where = ("--bootstrap-server", self.broker(1).address, "--election-type", "preferred")
        self.tool(ELECT, *where, "--all-topic-partitions")
        self.until_led(p0=1, p1=2, p2=3)

    def shown(self, broker_id: int, name: str) -> float:
        """By the page of metrics of a broker of kcore's."""
        with urlopen(f"http://127.0.0.1:{self.pages[broker_id]}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        [line] = [each for each in lines if each.startswith(f"{name} ")]
        return float(line.split()[1])

    def faults(self) -> list[str]:
        """The log lines that an operator should be woken for, or that look like a fault of ours."""
        lines = [line for node in self.kcore for line in node.log.read_text().splitlines()]
        return [line for line in lines if " ERROR " in line or " CRITICAL " in line or line.startswith("Traceback")]


@pytest.fixture(scope="module", params=["kafka", "kcore"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Mixed]:
    with Mixed(real_controllers=request.param == "kafka") as made:
        made.create_topic()
        yield made


@contextmanager
def load(
    cluster: KraftCluster, topic: str = TOPIC, partitions: int = len(REPLICAS), digits: int = 1
) -> Iterator[Writer]:
    """A producer and a consumer at work; at the end all that was acknowledged is there, once and in order.

    `digits`: of each value, so that the logs grow.
    """
    writer = Writer(f"w{time.monotonic_ns()}", cluster.bootstrap, topic, digits=digits)
    reader = CommittedReader(f"r{time.monotonic_ns()}", cluster.bootstrap, topic, partitions)
    for client in (writer, reader):
        client.start()
    yield writer
    writer.stop()
    found = all_records(cluster.bootstrap, topic, partitions)
    writer.check_records(found)
    reader.check_records(found)
    reader.stop()
    assert writer.done > 100


def progress(writer: Writer, count: int = 50) -> None:
    """So many more records are acknowledged."""
    wanted, end_s = writer.done + count, time.monotonic() + WITHIN_S
    while writer.done < wanted:
        writer.check()
        assert time.monotonic() < end_s, f"{writer.done} of {wanted}"
        time.sleep(0.05)


def test_brokers_stop_are_killed_and_come_back(cluster: Mixed) -> None:
    cluster.elect_preferred()
    with load(cluster) as writer:
        progress(writer)
        assert cluster.broker(1).terminate() == 0
        cluster.until_led(p0=2)
        assert "controlled shutdown: all leaders are moved" in cluster.broker(1).log.read_text()
        progress(writer)
        cluster.broker(1).start()
        cluster.elect_preferred()
        cluster.broker(2).kill()
        cluster.until_led(p1=3)
        progress(writer)
        cluster.broker(2).start()
        cluster.elect_preferred()
        cluster.broker(3).kill()  # Kafka's: kcore's lead all.
        cluster.until(lambda seen: {leader for leader, _ in seen.values()} <= {1, 2})
        progress(writer)
        cluster.broker(3).start()
        cluster.elect_preferred()
    assert cluster.faults() == []
    logs = [Path(node.data) for node in cluster.brokers]
    cluster.until_whole()
    for index in REPLICAS:
        sizes = {(path / f"{TOPIC}-{index}" / f"{0:020}.log").stat().st_size for path in logs}
        assert len(sizes) == 1, "every replica has the same bytes"


def test_the_controller_is_killed_under_load(cluster: Mixed) -> None:
    cluster.elect_preferred()
    with load(cluster) as writer:
        progress(writer)
        [controller] = cluster.controllers
        controller.kill()
        progress(writer)
        controller.start()
        assert cluster.broker(2).terminate() == 0
        cluster.until(lambda seen: seen[1][0] in (1, 3))
        progress(writer)
        cluster.broker(2).start()
        cluster.until_whole()
    assert cluster.faults() == []


def test_stock_clients_have_fetch_sessions(cluster: Mixed) -> None:
    """Kafka's broker as a follower, and its console consumer, which gets each record once by incremental fetches."""
    sessions = "kafka_server_FetchSessionCache_NumIncrementalFetchSessions"
    cluster.elect_preferred()
    cluster.until(lambda _: all(cluster.shown(broker_id, sessions) >= 2 for broker_id in (1, 2)))
    where = ("--bootstrap-server", cluster.broker(1).address)
    cluster.place("s", "1:3")
    values = [b"%d" % number for number in range(2_000)]
    producer = Producer(configuration(cluster.bootstrap))
    for value in values:
        producer.produce("s", value)
    assert producer.flush(WITHIN_S) == 0
    before = cluster.shown(1, sessions)
    options = ("--topic", "s", "--partition", "0", "--offset", "earliest", "--timeout-ms", "30000")
    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(cluster.tool, CONSOLE_CONSUMER, *where, *options, timeout_s=240)
        while cluster.shown(1, sessions) <= before:
            assert not consumed.done(), consumed.result()[-1000:]
            time.sleep(0.2)
    printed = [each for each in consumed.result().splitlines() if each.isdecimal()]  # Not what it says of its end.
    assert printed == [value.decode() for value in values]
    complaints = ("an invalid full fetch response", "an invalid incremental fetch response")
    assert not [each for each in complaints if each in cluster.broker(3).log.read_text()]
    cluster.tool(TOPICS, *where, "--delete", "--topic", "s")


def test_what_kafkas_tools_say_through_kcores_brokers(cluster: Mixed) -> None:
    """Internal topics go to Kafka's broker, and groups work: kcore's directories are cordoned."""
    for node in cluster.brokers:
        where = ("--bootstrap-server", node.address)
        described = cluster.tool(TOPICS, *where, "--describe", "--topic", TOPIC)
        assert "min.insync.replicas=2" in described and "ReplicationFactor: 3" in described
    where = ("--bootstrap-server", cluster.broker(1).address)
    printed = cluster.tool(CONFIGS, *where, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "broker.heartbeat.interval.ms=500" in printed
    printed = cluster.tool(LOG_DIRS, *where, "--describe", "--topic-list", TOPIC)
    assert printed.count(f'"partition":"{TOPIC}-0"') == 3
    cluster.tool(TOPICS, *where, "--create", "--topic", "u", "--partitions", "3", "--replication-factor", "1")
    described = cluster.tool(TOPICS, *where, "--describe", "--topic", "u")
    assert described.count("Leader: 3") == 3
    cluster.tool(TOPICS, *where, "--delete", "--topic", "u")


PAGES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"response_partition_limit": 2},
    {"response_partition_limit": 0},
    {"response_partition_limit": 2, "cursor": Cursor(topic_name=TOPIC, partition_index=1)},
    {"cursor": Cursor(topic_name=TOPIC, partition_index=7)},
    {"cursor": Cursor(topic_name="s", partition_index=5)},
    {"topics": [TopicRequest(name=each) for each in ("u", "no-topic", "no topic", "..", TOPIC)]},
    {"topics": [TopicRequest(name=TOPIC)], "cursor": Cursor(topic_name="u", partition_index=0)},
    {"topics": [TopicRequest(name=TOPIC)], "cursor": Cursor(topic_name=TOPIC, partition_index=-1)},
    {"cursor": Cursor(topic_name=TOPIC, partition_index=-1)},
)


@pytest.mark.parametrize("fields", PAGES)
def test_topics_page_by_page_are_those_of_kafkas_broker(cluster: Mixed, fields: dict[str, Any]) -> None:
    """DescribeTopicPartitions."""
    cluster.until_whole()
    request = DescribeTopicPartitionsRequest(**({"topics": []} | fields))
    responses: list[DescribeTopicPartitionsResponse] = []

    def is_same() -> bool:
        responses[:] = [asyncio.run(asked_of(cluster.broker(broker_id), request)) for broker_id in (1, 3)]
        for each in responses:
            each.topics.sort(key=lambda topic: topic.name or "")
        return responses[0] == responses[1]

    until(is_same, lambda: responses)


@pytest.mark.parametrize("is_own_cluster", [True, False, None])
@pytest.mark.parametrize("is_own_node", [True, False, None])
def test_clients_that_mean_another_node_are_answered_as_by_kafkas_broker(
    cluster: Mixed, is_own_cluster: bool | None, is_own_node: bool | None
) -> None:
    """ApiVersions 5 (KIP-1242). None: the client names no cluster, or no node."""
    cluster_ids = {True: cluster.cluster_id, False: "another", None: None}
    answers: list[ApiVersionsResponse] = []
    for broker_id in (1, 3):
        node_ids = {True: broker_id, False: 99, None: -1}
        request = ApiVersionsRequest(
            client_software_name="a-client",
            client_software_version="1",
            cluster_id=cluster_ids[is_own_cluster],
            node_id=node_ids[is_own_node],
        )
        answers.append(asyncio.run(asked_of(cluster.broker(broker_id), request)))
    ours, theirs = answers
    assert ours.error_code == theirs.error_code
    is_right = is_own_cluster is is_own_node and is_own_node is not False
    assert (theirs.error_code == Errors.NONE) == is_right
    features = [{each.name: each.max_version for each in answer.supported_features} for answer in answers]
    assert features[0] == features[1]
    finalized = [{each.name: each.max_version_level for each in answer.finalized_features} for answer in answers]
    assert finalized[0] == finalized[1]
    if is_right:
        assert features[0]["metadata.version"] == finalized[0]["metadata.version"] == 33
        assert {*map(key_of, ours.api_keys)} <= {*map(key_of, theirs.api_keys)}


def key_of(api: ApiVersion) -> int:
    return api.api_key


def test_a_controller_is_unregistered_through_kcores_broker(cluster: Mixed) -> None:
    """The only controller is the active one, which refuses."""
    [controller] = cluster.controllers
    for broker_id in (1, 3):
        unregister = ("unregister-controller", "--bootstrap-server", cluster.broker(broker_id).address, "--id")
        assert "Controller cannot unregister itself" in refusal(cluster, CLUSTER, *unregister, controller.node_id)
        assert "Controller ID 999 is not currently registered" in refusal(cluster, CLUSTER, *unregister, 999)


NEW_SETTINGS: Final = {
    **{"errors.deadletterqueue.group.enable": "true", "max.decompressed.message.bytes": "5000000"},
    **{"remote.copy.lag.bytes": "1000", "remote.copy.lag.ms": "2000"},
}


def test_the_settings_that_4_4_0_added(cluster: Mixed) -> None:
    """Settings of topics, groups and all brokers are set and described through kcore's broker and Kafka's."""
    added = ",".join(f"{name}={value}" for name, value in NEW_SETTINGS.items())
    entities = {
        ("--entity-type", "topics", "--entity-name", TOPIC): added,
        ("--entity-type", "groups", "--entity-name", "g"): "errors.deadletterqueue.topic.name=dead",
        ("--entity-type", "brokers", "--entity-default"): "errors.deadletterqueue.topic.name.prefix=lost.",
    }
    for broker_id, other_id in ((1, 3), (3, 1)):
        at, other = (("--bootstrap-server", cluster.broker(each).address) for each in (broker_id, other_id))
        for entity, settings in entities.items():
            cluster.tool(CONFIGS, *at, "--alter", *entity, "--add-config", settings)
            for setting in settings.split(","):
                await_printed(cluster, f"{setting} ", CONFIGS, *other, "--describe", *entity)
            names = ",".join(each.partition("=")[0] for each in settings.split(","))
            cluster.tool(CONFIGS, *at, "--alter", *entity, "--delete-config", names)


async def asked_of(node: Node, request: Message) -> Any:
    async with await connect("127.0.0.1", node.port) as connection:
        return await connection.send(request)
