"""Seeded kills of controller, broker and ZooKeeper, and sessions lost by all at once: no acknowledged record is lost.

The brokers are Kafka's, or kcore's. `ci/chaos` has more rounds.
"""

import time
from collections.abc import Iterator

import pytest

from oracle.chaos.chaos import KINDS, SESSION_S, Chaos, blows_of, chaos, play

ROUNDS, SEED = 3, 1


@pytest.fixture(scope="module", params=["Kafka's brokers", "kcore's brokers"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    with chaos(tmp_path_factory.mktemp("chaos"), kcore_brokers=request.param == "kcore's brokers") as made:
        yield made


def test_zookeeper_restarts_and_the_sessions_survive(cluster: Chaos) -> None:
    before = cluster.sessions()
    cluster.zookeeper.kill()
    cluster.zookeeper.start()
    cluster.await_whole()
    cluster.clients_go_on()
    assert len(before) == 4
    assert cluster.sessions() == before


def test_zookeeper_is_away_for_longer_than_a_session_and_all_are_lost(cluster: Chaos) -> None:
    before = cluster.sessions()
    cluster.end_all_sessions()
    cluster.await_whole()
    cluster.clients_go_on()
    assert min(cluster.sessions()) > max(before)


def test_zookeeper_is_away_for_long_and_clients_do_without(cluster: Chaos) -> None:
    cluster.zookeeper.kill()
    time.sleep(2 * SESSION_S)
    cluster.clients_are_acknowledged()
    cluster.zookeeper.start()
    cluster.await_whole()
    cluster.clients_go_on()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_ones_come_back(number: int, cluster: Chaos) -> None:
    _, acknowledged = play(cluster, SEED, number)
    assert acknowledged > 100


def test_no_acknowledged_record_is_missing_or_there_twice(cluster: Chaos) -> None:
    acknowledged, missing, twice = cluster.end()
    assert acknowledged > 500
    assert (missing, twice) == ([], {})
    assert cluster.all_faults() == []


def test_a_seed_says_all_of_a_round() -> None:
    """Two turns of kills, each kind first in its turn; in some rounds there are pauses."""
    rounds = [blows_of(7, number) for number in range(30)]
    assert rounds == [blows_of(7, number) for number in range(30)] != [blows_of(8, number) for number in range(30)]
    killed = [[blow.kind for blow in blows if blow.how == "killed"] for blows in rounds]
    assert killed == [[*KINDS[number % 3 :], *KINDS[: number % 3]] * 2 for number in range(30)]
    paused = {blow.kind for blows in rounds for blow in blows if blow.how == "paused"}
    assert paused == {"controller", "broker", "everybody"}
