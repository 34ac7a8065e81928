"""Three real Kafka 3.9.1 brokers under kcore's controller, with a producer and a consumer that go on all the time.

The tests are one story: each begins where the last one ended. After each step ZooKeeper and every broker agree with
kcore's table, and at the end no acknowledged message is missing or there twice.
"""

import json
import subprocess
from collections.abc import Iterator

import pytest

from kcore.metadata.zookeeper import znodes
from oracle.kafka_tools import CONFIGS, CONSOLE_CONSUMER, ELECT, REASSIGN, TOPICS, run_tool
from oracle.zk_controllers import COMMAND, GENEROUS_S, TOPIC, Cluster, Controller, agree, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.started(tmp_path_factory.mktemp("story")) as started:
        yield started


def test_topics_are_made_by_kafkas_own_tool(cluster: Cluster) -> None:
    cluster.tool(TOPICS, "--create", "--topic", TOPIC, "--partitions", 6, "--replication-factor", 3)
    cluster.tool(TOPICS, "--create", "--topic", "chosen", "--replica-assignment", "3:1,1:2")
    cluster.agree()
    made = cluster.in_zookeeper()
    assert [made["chosen", index] for index in (0, 1)] == [(3, 0, (3, 1), (3, 1)), (1, 0, (1, 2), (1, 2))]
    assert len([place for place in made if place[0] == TOPIC]) == 6
    printed = cluster.tool(TOPICS, "--describe", "--topic", TOPIC)
    assert "PartitionCount: 6\tReplicationFactor: 3" in printed


def test_a_stock_producer_and_consumer_work(cluster: Cluster) -> None:
    """Idempotent, so that the producer needs a block of ids from the controller; a group, so that the broker makes
    __consumer_offsets through it."""
    cluster.start_clients()
    cluster.clients_go_on()
    cluster.agree()
    assert ("__consumer_offsets", 0) in cluster.in_zookeeper()


def test_a_broker_is_killed_and_comes_back(cluster: Cluster) -> None:
    cluster.brokers[2].kill()
    cluster.clients_go_on()
    cluster.agree()
    assert all(leader != 2 and 2 not in isr for leader, _, _, isr in cluster.in_zookeeper().values())
    cluster.brokers[2].start()
    cluster.agree()
    assert all(2 in isr for _, _, replicas, isr in cluster.in_zookeeper().values() if 2 in replicas)
    cluster.clients_go_on()


def test_a_controlled_shutdown_moves_all_leaders_first(cluster: Cluster) -> None:
    broker = cluster.brokers[3]
    broker.terminate()
    assert "Controlled shutdown request returned successfully" in broker.log_text()
    cluster.agree()
    cluster.clients_go_on()
    broker.start()
    cluster.agree()


@pytest.mark.covers("A4", "assumption 4")
def test_a_bounce_that_nobody_saw_is_noticed(cluster: Cluster) -> None:
    """KIP-380: the children of /brokers/ids are as before when the controller looks; the czxid is not."""
    broker = cluster.brokers[1]
    before = cluster.in_zookeeper()
    cluster.controller.pause()
    broker.kill()
    cluster.delete(znodes.broker_path(1))
    broker.start()
    cluster.controller.resume()
    cluster.agree()
    after = cluster.in_zookeeper()
    led = [place for place, (leader, *_) in before.items() if leader == 1]
    assert led
    assert all(after[place][1] > before[place][1] for place in led)
    cluster.clients_go_on()


def test_leaders_return_to_the_preferred_replicas(cluster: Cluster) -> None:
    cluster.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    cluster.agree()
    assert all(leader == replicas[0] for leader, _, replicas, _ in cluster.in_zookeeper().values())


def test_replicas_move_to_other_brokers(cluster: Cluster) -> None:
    wanted = {0: [2, 1], 1: [3, 2]}
    plan = cluster.folder / "plan.json"
    rows = [{"topic": "chosen", "partition": index, "replicas": replicas} for index, replicas in wanted.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    cluster.tool(REASSIGN, "--reassignment-json-file", plan, "--execute")

    def is_done() -> bool:
        printed = cluster.tool(REASSIGN, "--reassignment-json-file", plan, "--verify")
        return printed.count("is completed") == len(wanted)

    until(is_done, "the reassignment is done")
    cluster.agree()
    now = cluster.in_zookeeper()
    assert {index: list(now["chosen", index][2]) for index in wanted} == wanted


def test_a_topic_grows(cluster: Cluster) -> None:
    cluster.tool(TOPICS, "--alter", "--topic", TOPIC, "--partitions", 9)
    cluster.agree()
    assert len([place for place in cluster.in_zookeeper() if place[0] == TOPIC]) == 9
    cluster.clients_go_on()


def test_settings_of_a_topic_are_changed_and_described(cluster: Cluster) -> None:
    cluster.tool(CONFIGS, "--alter", "--topic", TOPIC, "--add-config", "retention.ms=3600000")
    assert "retention.ms=3600000" in cluster.tool(CONFIGS, "--describe", "--topic", TOPIC)


def test_a_topic_is_deleted(cluster: Cluster) -> None:
    cluster.tool(TOPICS, "--delete", "--topic", "chosen")
    until(lambda: "chosen" not in cluster.tool(TOPICS, "--list").split(), "the topic is gone")
    cluster.agree()
    logs = [path.name for broker in cluster.brokers.brokers for place in broker.log_dirs for path in place.iterdir()]
    assert [name for name in logs if name.startswith("chosen-") and not name.endswith("-delete")] == []


def test_the_controller_alone_is_enough_to_begin_with(cluster: Cluster) -> None:
    """A client that is given no other address: what the controller does not own, a live broker answers."""
    address = cluster.controller.address
    assert TOPIC in run_tool(TOPICS, "--bootstrap-server", address, "--list").split()
    printed = run_tool(
        *(CONSOLE_CONSUMER, "--bootstrap-server", address, "--topic", TOPIC),
        *("--from-beginning", "--max-messages", 10, "--group", "by-the-controller"),
    )
    assert len(printed.split()) == 10


def test_no_broker_has_controlled_so_far(cluster: Cluster) -> None:
    logs = [broker.log.read_text() for broker in cluster.brokers.brokers]
    assert [log for log in logs if "successfully elected as the controller" in log] == []


def test_a_controller_with_the_id_of_a_live_broker_takes_nothing_over(cluster: Cluster) -> None:
    before = cluster.in_zookeeper()
    for options in (("--broker-id", "1", "--take-over"), ("--broker-id", "2000", "--take-over")):
        connect = cluster.connect + ("/typo" if "2000" in options else "")
        command = (*COMMAND, "--zookeeper", connect, "--listen", "127.0.0.1:0", *options)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=GENEROUS_S, check=False)
        assert ended.returncode == 2
        message = "ZooKeeper has no /typo: " if "2000" in options else "broker 1 is registered in ZooKeeper: "
        assert message in " ".join(ended.stderr.split()) and "Traceback" not in ended.stderr
    cluster.agree()
    assert cluster.in_zookeeper() == before
    cluster.clients_go_on()


def test_a_second_controller_takes_over_when_the_first_is_killed(cluster: Cluster) -> None:
    """Or takes back, if a broker was faster."""
    first = cluster.controller
    second = Controller(cluster.connect, cluster.folder, 1001, "--take-over")
    cluster.controller = second
    second.await_log("controller 1000 is active, epoch ")
    first.kill()
    second.await_log("controller 1001 is active")
    cluster.agree()
    cluster.clients_go_on()


def test_zookeeper_is_killed_and_comes_back(cluster: Cluster) -> None:
    """Within everybody's session."""
    cluster.zookeeper.kill()
    cluster.zookeeper.start()
    cluster.clients_go_on()
    cluster.agree()


def test_a_paused_controller_comes_back_as_nobody(cluster: Cluster) -> None:
    """While it stood still another was elected, a broker died, and its own session ended; it believes otherwise."""
    paused = cluster.controller
    cluster.controller = Controller(cluster.connect, cluster.folder, 1000, "--take-over")
    paused.pause()
    cluster.brokers[2].kill()
    cluster.controller.await_log("controller 1000 is active")
    cluster.clients_go_on()
    paused.resume()
    cluster.brokers[2].start()
    paused.await_log("controller 1001 has resigned")
    paused.await_log("controller 1000 is active, epoch ")
    cluster.agree()
    cluster.clients_go_on()
    assert paused.stop() == 0


def test_a_real_brokers_controller_takes_over_and_gives_back(cluster: Cluster) -> None:
    """Its epochs go on from ours, and ours from its."""
    assert cluster.controller.stop() == 0
    agree(cluster.connect, cluster.brokers, None)
    cluster.clients_go_on()
    cluster.tool(TOPICS, "--create", "--topic", "theirs", "--partitions", 3, "--replication-factor", 3)
    agree(cluster.connect, cluster.brokers, None)
    cluster.controller = Controller(cluster.connect, cluster.folder, 1000, "--take-over")
    cluster.controller.await_log("controller 1000 is active")
    cluster.agree()
    cluster.tool(TOPICS, "--create", "--topic", "ours", "--partitions", 3, "--replication-factor", 3)
    cluster.agree()
    cluster.clients_go_on()


def test_no_acknowledged_message_is_missing_or_there_twice(cluster: Cluster) -> None:
    cluster.stop_clients()
