"""Seeded kills of controller, broker and ZooKeeper, and sessions lost by all at once: no acknowledged record is lost.

`ci/chaos` has more rounds.
"""

import time
from collections.abc import Iterator

import pytest

from kcore.metadata import znodes
from oracle.chaos import SESSION_S, Chaos, chaos, play
from oracle.zk_controllers import until

ROUNDS, SEED = 6, 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    with chaos(tmp_path_factory.mktemp("chaos")) as made:
        yield made


def versions(cluster: Chaos) -> list[int]:
    """What every new session of a broker or controller changes."""
    paths = [znodes.broker_path(broker.broker_id) for broker in cluster.brokers.brokers]
    return [node.czxid for node in cluster.nodes([*paths, znodes.CONTROLLER]) if node is not None]


def test_zookeeper_restarts_and_the_sessions_survive(cluster: Chaos) -> None:
    before = versions(cluster)
    cluster.zookeeper.kill()
    cluster.zookeeper.start()
    cluster.await_whole()
    cluster.clients_go_on()
    assert len(before) == 4
    assert versions(cluster) == before


def test_zookeeper_is_away_for_longer_than_a_session_and_all_are_lost(cluster: Chaos) -> None:
    """A server that starts gives its sessions their whole time again: nobody may reach it until that has passed."""
    before = versions(cluster)
    everybody = [*cluster.brokers.brokers, *cluster.controllers.values()]
    cluster.zookeeper.kill()
    cluster.clients_are_acknowledged()
    for each in everybody:
        each.pause()
    cluster.zookeeper.start()
    until(lambda: versions(cluster) == [], "all sessions have ended")
    for each in everybody:
        each.resume()
    cluster.await_whole()
    cluster.clients_go_on()
    assert min(versions(cluster)) > max(before)


def test_zookeeper_is_away_for_long(cluster: Chaos) -> None:
    cluster.zookeeper.kill()
    time.sleep(2 * SESSION_S)
    cluster.clients_are_acknowledged()
    cluster.zookeeper.start()
    cluster.await_whole()
    cluster.clients_go_on()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_ones_come_back(number: int, cluster: Chaos) -> None:
    play(cluster, SEED, number)


def test_no_acknowledged_record_is_missing_or_there_twice(cluster: Chaos) -> None:
    acknowledged, missing, twice = cluster.end()
    assert acknowledged > 100
    assert (missing, twice) == ([], {})
    assert cluster.all_faults() == []
