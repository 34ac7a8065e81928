"""The active controller over a tree in memory: elected, brokers and topics come and go."""

import pytest

from controller.zk.tree import Cluster


def three_brokers(**config: object) -> Cluster:
    cluster = Cluster(**config)
    for broker in (1, 2, 3):
        cluster.register(broker)
    return cluster


@pytest.mark.covers("article B.1", "article B.2.1", "article B.2.2", "article B.3")
def test_a_topic_that_a_tool_wrote_gets_leaders() -> None:
    cluster = three_brokers()
    cluster.elect()
    cluster.story()
    cluster.write_topic("t", [1, 2, 3], [2, 3, 1])
    cluster.run()
    assert cluster.state("t", 0) == (1, (1, 2, 3), 0)
    assert cluster.state("t", 1) == (2, (2, 3, 1), 0)
    names = ["t-0", "t-1"]
    assert cluster.story() == [
        ("UpdateMetadata", [1, 2, 3], names),
        ("LeaderAndIsr", [1], names),
        ("LeaderAndIsr", [2], names),
        ("LeaderAndIsr", [3], names),
    ]


@pytest.mark.covers("article A.4", "article E.3.3", "article affected brokers")
def test_a_broker_dies_and_comes_back() -> None:
    cluster = three_brokers()
    cluster.write_topic("t", [1, 2, 3], [2, 3, 1])
    cluster.elect()
    cluster.story()
    cluster.unregister(1)
    cluster.run()
    assert cluster.state("t", 0) == (2, (2, 3), 1)
    assert cluster.state("t", 1) == (2, (2, 3), 1)
    assert [each[:2] for each in cluster.story()] == [
        ("UpdateMetadata", [2, 3]),
        ("LeaderAndIsr", [2]),
        ("LeaderAndIsr", [3]),
    ]
    cluster.register(1)
    cluster.run()
    names = ["t-0", "t-1"]
    assert cluster.story() == [
        ("UpdateMetadata", [1], names),
        ("UpdateMetadata", [2, 3], names),
        ("LeaderAndIsr", [1], names),
    ]
