"""Real Kafka 4.3.1 brokers under one kcore controller: topics, records, a broker that is killed and comes back."""

from collections.abc import Iterator

import pytest

from oracle.kafka_tools import CONSOLE_CONSUMER, TOPICS
from oracle.kcore_brokers import Seen, topic_at, until
from oracle.kraft_clusters import KraftCluster

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"  # 4.x has it there.
ALL = frozenset({1, 2, 3})


@pytest.fixture
def cluster() -> Iterator[KraftCluster]:
    with KraftCluster() as started:
        yield started


def test_a_topic_lives_through_the_crash_of_a_broker(cluster: KraftCluster) -> None:
    """Created, written, read; a broker is killed, which the controller tells of, and joins again."""
    [controller] = cluster.controllers
    first, second, third = cluster.brokers
    at = ("--bootstrap-server", cluster.bootstrap)
    cluster.tool(TOPICS, *at, "--create", "--topic", "t", "--partitions", 3, "--replication-factor", 3)
    produce = (*at, "--topic", "t", "--command-property", "acks=all")
    cluster.tool(CONSOLE_PRODUCER, *produce, given="".join(f"a{k}\n" for k in range(100)))
    assert await_isr(first.address, ALL)
    third.kill()
    until(lambda: "broker 3 fenced" in controller.log_text(), controller.log_text)
    assert await_isr(first.address, frozenset({1, 2}))
    assert all(each.leader in (1, 2) for each in topic_at(first.address, "t").values())
    cluster.tool(CONSOLE_PRODUCER, *produce, given="".join(f"b{k}\n" for k in range(100)))
    third.start()
    assert await_isr(first.address, ALL)
    assert await_isr(third.address, ALL)
    found = cluster.tool(
        *(CONSOLE_CONSUMER, *at, "--topic", "t", "--from-beginning"),
        *("--max-messages", 200, "--timeout-ms", 60_000),
    ).split()
    assert sorted(found) == sorted(f"{run}{k}" for run in "ab" for k in range(100))
    cluster.stop()
    assert_no_complaints(cluster)


def await_isr(address: str, isr: frozenset[int]) -> dict[int, Seen]:
    """Every partition of the topic has this ISR."""
    found: dict[int, Seen] = {}

    def there() -> bool:
        found.update(topic_at(address, "t"))
        return bool(found) and all(each.isr == isr for each in found.values())

    until(there, lambda: found)
    return found


def assert_no_complaints(cluster: KraftCluster) -> None:
    """Nothing failed in the controller, and brokers logged no error."""
    for node in cluster.controllers:
        assert "Traceback" not in node.log_text() and "ERROR" not in node.log_text(), node.log_text()
    for node in cluster.brokers:
        errors = [line for line in node.log_text().splitlines() if "] ERROR " in line]
        assert errors == [], errors
