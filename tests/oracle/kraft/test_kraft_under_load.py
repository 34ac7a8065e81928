"""Real brokers with producers, transactions and consumers at work, while controllers and brokers fail."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from oracle.chaos.kraft_kills import Controllers, Story, shown_at_failure
from oracle.chaos.kraft_mixed_quorum import mixed_controllers
from oracle.chaos.kraft_under_load import MOVED, ORDERS, PARTITIONS, PAYMENTS, PROPERTIES, Loaded, Mover
from oracle.librdkafka_clients import Client, CommittedReader, Found, GroupMember, TopicMaker, Transactor, Writer

Script = Callable[[Loaded, Mover], Awaitable[None]]


def transactors(cluster: Controllers, count: int) -> list[Transactor]:
    return [Transactor(f"tx{each}", cluster.bootstrap, PAYMENTS, PARTITIONS[PAYMENTS]) for each in range(count)]


def reader(cluster: Controllers) -> CommittedReader:
    return CommittedReader("committed", cluster.bootstrap, PAYMENTS, PARTITIONS[PAYMENTS])


def play(cluster: Controllers, clients: Sequence[Client], topics: Sequence[str], script: Script) -> tuple[Story, Mover]:
    """The script, while the clients work; if MOVED is one of the topics, its partitions move."""
    story = Story(seed=1)

    async def run() -> Mover:
        loaded = Loaded(cluster, story, topics, clients)
        mover = Mover(cluster, loaded.dice)
        async with loaded.running(*([mover] if MOVED in topics else [])):
            await script(loaded, mover)
        return mover

    with shown_at_failure([*cluster.controllers, *cluster.brokers]):
        return story, asyncio.run(run())


@pytest.mark.parametrize(("kcore", "real"), [(2, 1), (1, 2)])
def test_kcores_and_kafkas_controllers_take_turns_over_real_brokers(kcore: int, real: int) -> None:
    """Each is the active one again and again; a broker is killed in each turn of the second round."""

    async def script(loaded: Loaded, mover: Mover) -> None:
        controllers = loaded.cluster.controllers
        for number in range(2):
            for at, node in enumerate(loaded.dice.sample(controllers, len(controllers))):
                await loaded.turn(node)
                if number == 1:
                    await loaded.lose_broker(loaded.cluster.brokers[at], is_quick=at == 1)
            await loaded.compare_all()

    with mixed_controllers(kcore=kcore, real=real, brokers=3, properties=PROPERTIES) as cluster:
        bootstrap = cluster.bootstrap
        clients = [
            *(Writer("a", bootstrap, ORDERS), Writer("b", bootstrap, MOVED), *transactors(cluster, 1)),
            *(reader(cluster), TopicMaker("made", bootstrap, 3)),
        ]
        story, mover = play(cluster, clients, (ORDERS, PAYMENTS, MOVED), script)
    assert len(story.active) == 3 and min(story.active.values()) >= 2, story.active
    assert story.snapshots and story.real_snapshots, "no snapshot was compared"
    assert mover.granted > 100


def test_transactions_are_whole_while_brokers_and_controllers_are_killed() -> None:
    """Kill -9 of the active controller, of a broker, of both, each while a transaction is open."""

    async def script(loaded: Loaded, _: Mover) -> None:
        for number, broker in enumerate(loaded.cluster.brokers * 2):
            await open_transaction(loaded)
            active = await loaded.await_active()
            loaded.kill(active, "active")
            if number % 3 == 0:
                await loaded.until(lambda: loaded.active not in (None, active), "another active controller")  # noqa: B023
                await open_transaction(loaded)
            loaded.kill(broker, "broker")
            loaded.start(active)
            loaded.start(broker)
            await loaded.whole()
            await open_transaction(loaded)
            await loaded.lose_broker(broker, is_quick=number % 2 == 0)
            await loaded.work()

    with Controllers(brokers=3, properties=PROPERTIES, real=None) as cluster:
        made = transactors(cluster, 2)
        story, _ = play(cluster, [*made, reader(cluster)], (PAYMENTS,), script)
    assert story.kills["active"] == 6 and story.kills["broker"] == 12, story.kills
    for each in made:
        assert len(each.committed) > 50 and len(each.aborted) > 20


async def open_transaction(loaded: Loaded) -> None:
    """Until one is open."""
    working = [each for each in loaded.clients if isinstance(each, Transactor)]
    await loaded.until(lambda: any(each.is_open for each in working), "an open transaction")


def test_partitions_move_under_load_while_controllers_fail() -> None:
    """Four producers, a group of three consumers, topics that come and go; the active controller is killed."""

    async def script(loaded: Loaded, mover: Mover) -> None:
        for _ in range(8):
            granted = mover.granted
            await loaded.until(lambda: mover.granted > granted + 20, "moves")  # noqa: B023
            active = await loaded.await_active()
            loaded.kill(active, "active")
            await loaded.until(lambda: loaded.active not in (None, active), "another active controller")  # noqa: B023
            loaded.start(active)
            await loaded.work()

    with Controllers(brokers=3, properties=PROPERTIES, real=None) as cluster:
        bootstrap = cluster.bootstrap
        writers = [Writer(name, bootstrap, MOVED, per_s=200) for name in "abcd"]
        found = set[Found]()
        group = [GroupMember(f"member {each}", bootstrap, MOVED, found, "group", "consumer") for each in range(3)]
        story, mover = play(cluster, [*writers, *group, TopicMaker("made", bootstrap, 3)], (MOVED,), script)
    assert story.kills["active"] == 8
    assert mover.granted > 300 and mover.cancelled > 0
    assert sum(len(each.acknowledged) for each in writers) > 1000
