"""A cluster of 4.3.1 becomes one of 4.4.0 under load, node by node, and `kafka-features upgrade` ends it.

No acknowledged record is lost, transactions stay whole, and the controllers' logs, snapshots and states are equal.
"""

import asyncio
from typing import Final

import pytest

from kcore.metadata.metadata_version import FEATURE_NAME
from oracle.chaos.kraft_checks import await_printed, brokers
from oracle.chaos.kraft_mixed_quorum import mixed_controllers
from oracle.chaos.kraft_under_load import ORDERS, PAYMENTS, PROPERTIES, Loaded, Mover
from oracle.kafka_tools import CLUSTER, FEATURES, OLDER_RELEASE, RELEASE
from oracle.kraft.test_kraft_broker import Mixed, load, progress
from oracle.kraft.test_kraft_under_load import play, reader, transactors
from oracle.librdkafka_clients import TopicMaker, Writer

LEVELS: Final = {OLDER_RELEASE: 30, RELEASE: 33}


def test_a_mixed_cluster_is_upgraded_under_load() -> None:
    """kcore's and Kafka's controllers, and Kafka's brokers."""

    async def script(loaded: Loaded, _: Mover) -> None:
        cluster = loaded.cluster
        assert loaded.watch.image.features[FEATURE_NAME] == LEVELS[OLDER_RELEASE]
        for node in loaded.dice.sample(cluster.controllers, len(cluster.controllers)) + cluster.brokers:
            await loaded.stop(node, "upgraded", 60.0)
            cluster.upgrade(node, RELEASE)
            loaded.start(node)
            await loaded.await_active()
            await loaded.whole()
            await loaded.work()
        cluster.release = RELEASE
        await loaded.until(lambda: supported(loaded) == {LEVELS[RELEASE]}, "registrations of 4.4.0")
        upgrade = (FEATURES, *brokers(cluster), "upgrade", "--release-version", "4.4-IV2")
        await asyncio.to_thread(cluster.tool, *upgrade)
        await loaded.until(lambda: loaded.watch.image.features["share.version"] == 2, "the new levels")
        assert loaded.watch.image.features[FEATURE_NAME] == LEVELS[RELEASE]
        for node in cluster.controllers:
            await loaded.turn(node)
            await unregister_standby(loaded)
        await loaded.compare_all()

    with mixed_controllers(kcore=2, real=1, brokers=3, properties=PROPERTIES, release=OLDER_RELEASE) as cluster:
        bootstrap = cluster.bootstrap
        clients = [
            *(Writer("a", bootstrap, ORDERS), *transactors(cluster, 1)),
            *(reader(cluster), TopicMaker("made", bootstrap, 3)),
        ]
        story, _ = play(cluster, clients, (ORDERS, PAYMENTS), script)
    assert story.kills["upgraded"] == 6 and len(story.active) == 3
    assert story.snapshots and story.real_snapshots, "no snapshot was compared"


@pytest.mark.parametrize("real_controllers", [True, False], ids=["kafka", "kcore"])
def test_kcores_brokers_are_upgraded_under_load(real_controllers: bool) -> None:
    """Two brokers of kcore's and one of Kafka's; the controller is Kafka's or kcore's."""
    with Mixed(real_controllers=real_controllers, release=OLDER_RELEASE) as cluster:
        cluster.create_topic()
        with load(cluster) as writer:
            for node in [*cluster.controllers, *cluster.brokers]:
                progress(writer)
                node.terminate(timeout_s=90)
                cluster.upgrade(node, RELEASE)
                node.start()
                cluster.until_whole()
            cluster.release = RELEASE
            where = ("--bootstrap-server", cluster.broker(1).address)
            cluster.tool(FEATURES, *where, "upgrade", "--release-version", "4.4-IV2")
            for node in cluster.brokers:
                at = ("--bootstrap-server", node.address)
                await_printed(cluster, "FinalizedVersionLevel: 4.4-IV2", FEATURES, *at, "describe")
            progress(writer)
            assert cluster.broker(2).terminate() == 0  # It registers at the new level.
            cluster.broker(2).start()
            cluster.until_whole()
            progress(writer)
        assert cluster.faults() == []


def supported(loaded: Loaded) -> set[int]:
    """The highest metadata.versions that registered nodes support."""
    image = loaded.watch.image
    features = [each for record in image.controllers.values() for each in record.features]
    of_brokers = {each.supported_features[FEATURE_NAME][1] for each in image.brokers.registrations().values()}
    return of_brokers | {each.max_supported_version for each in features if each.name == FEATURE_NAME}


async def unregister_standby(loaded: Loaded) -> None:
    """By a broker; the standby then registers again."""
    active = await loaded.await_active()
    standby = next(node for node in loaded.cluster.controllers if node is not active)
    unregister = (CLUSTER, "unregister-controller", *brokers(loaded.cluster), "--id", standby.node_id)
    await asyncio.to_thread(loaded.cluster.tool, *unregister)
    await loaded.caught_up()
    await loaded.until(lambda: standby.node_id in loaded.watch.image.controllers, f"{standby.name} registers again")
