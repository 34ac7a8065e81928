"""Clusters that a controller refuses before its first write, events that end it later, and conflicts of its id."""

import asyncio
import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.controller.zk.zk_controller_config import ControllerConfig
from kcore.errors import ElectionRefusedError
from kcore.metadata.table.partition_state import ReplicaAssignment
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znodes import PartitionStateNode, TopicAssignment
from kcore.server.zk_controller import eligibility
from kcore.server.zk_controller.zk_controller_server import ControllerServer
from net.loops import story, until
from server.zookeepers import OTHERS, OURS, Zookeeper, stand_in

US, OTHER = 1000, 1001


@pytest.fixture(autouse=True)
def zookeeper_of_dicts(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


def kafkas() -> Zookeeper:
    """As brokers have made it."""
    zookeeper = Zookeeper()
    for path in znodes.PERSISTENT_PATHS:
        zookeeper.tree.create(path, parents=True)
    return zookeeper


def server(zookeeper: Zookeeper, **options: Any) -> ControllerServer:
    return ControllerServer(ControllerConfig(US), zookeeper, **options)  # type: ignore[arg-type]


def put(zookeeper: Zookeeper, path: str, data: bytes) -> None:
    zookeeper.tree.delete(path)
    zookeeper.tree.create(path, data, parents=True)


def topic(*replicas: tuple[int, ...]) -> bytes:
    return znodes.encode_topic(TopicAssignment(None, {k: ReplicaAssignment(each) for k, each in enumerate(replicas)}))


def state(leader: int, *isr: int, epoch: int = 0) -> bytes:
    return znodes.encode_state(PartitionStateNode(leader, epoch, isr, 1))


def kraft(zookeeper: Zookeeper) -> None:
    zookeeper.elected(3000)
    put(zookeeper, znodes.CONTROLLER, znodes.encode_controller(3000, 0, 5))


def put_state(data: bytes) -> Callable[[Zookeeper], None]:
    def write(zookeeper: Zookeeper) -> None:
        put(zookeeper, znodes.topic_path("t"), topic((1, 2)))
        put(zookeeper, znodes.state_path("t", 0), data)

    return write


def put_at(path: str, data: bytes) -> Callable[[Zookeeper], None]:
    return lambda zookeeper: put(zookeeper, path, data)


def no_chroot(zookeeper: Zookeeper) -> None:
    zookeeper.chroot, zookeeper.has_chroot = "/kafka", False


def migration(controller_id: int, controller_epoch: int, offset: int, epoch: int) -> bytes:
    """The data of /migration (MigrationZNode)."""
    values = {"kraft_controller_id": controller_id, "kraft_controller_epoch": controller_epoch}
    return json.dumps({"version": 0, "kraft_metadata_offset": offset, "kraft_metadata_epoch": epoch, **values}).encode()


MIGRATING = migration(3000, 5, 100, 5)
REFUSED = {
    "broker with our id": (lambda zookeeper: zookeeper.register(US, 9), "broker 1000 is registered in ZooKeeper: "),
    "KRaft": (kraft, "KRaft controller 3000 (KRaft epoch 5) controls this cluster, by /controller: "),
    "migration by controller 0": (
        put_at(znodes.MIGRATION, migration(0, 5, 100, 5)),
        "/migration: KRaft controller 0 (KRaft epoch 5) is migrat",
    ),
    "migration": (put_at(znodes.MIGRATION, MIGRATING), "/migration: KRaft controller 3000 (KRaft epoch 5) is migrat"),
    "no chroot": (no_chroot, "ZooKeeper has no /kafka: "),
    "broker of version 6": (
        put_at("/brokers/ids/4", b'{"version":6,"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1}'),
        "/brokers/ids/4: not as Kafka writes it: version 6 is not one of 1 to 5",
    ),
    "broker of version 0": (put_at("/brokers/ids/4", b'{"version":0}'), "/brokers/ids/4: not as Kafka writes it"),
    "broker without a number": (put_at("/brokers/ids/four", b"{}"), "/brokers/ids/four: the name is not a broker id"),
    "topic that is no JSON": (put_at("/brokers/topics/t", b"not json"), "/brokers/topics/t: not JSON"),
    "replica twice": (
        put_at("/brokers/topics/t", topic((1, 1))),
        "/brokers/topics/t: partition 0 has the impossible assignment",
    ),
    "33 replicas": (
        put_at("/brokers/topics/t", topic((*range(33),))),
        "/brokers/topics/t: partition 0 has the impossible assignment",
    ),
    "replica -1": (
        put_at("/brokers/topics/t", topic((1,), (2, -1))),
        "/brokers/topics/t: partition 1 has the impossible assignment",
    ),
    "state that is no JSON": (put_state(b"{"), "/brokers/topics/t/partitions/0/state: not JSON"),
    "ISR twice": (
        put_state(state(1, 1, 1)),
        "/brokers/topics/t/partitions/0/state: the leader, leader epoch and ISR are impossible",
    ),
    "leader -7": (
        put_state(state(-7, 1)),
        "/brokers/topics/t/partitions/0/state: the leader, leader epoch and ISR are impossible",
    ),
    "leader epoch -2": (put_state(state(1, 1, epoch=-2)), "/brokers/topics/t/partitions/0/state: the leader, leader"),
    "controller": (put_at(znodes.CONTROLLER, b"none"), "/controller: not JSON"),
    "controller epoch": (put_at(znodes.CONTROLLER_EPOCH, b"many"), "/controller_epoch: "),
    "feature": (put_at(znodes.FEATURE, b'{"version":9,"status":1}'), "/feature: "),
    "cluster id": (put_at(znodes.CLUSTER_ID, b"me"), "/cluster/id: not JSON"),
    "producer ids": (put_at(znodes.LATEST_PRODUCER_ID_BLOCK, b"{}"), "/latest_producer_id_block: "),
    "migration that is none": (put_at(znodes.MIGRATION, b"{}"), "/migration: "),
}


@pytest.mark.parametrize("take_it_over", [False, True])
@pytest.mark.parametrize("name", REFUSED)
@story
async def test_nothing_is_taken_over(name: str, take_it_over: bool) -> None:
    """One sentence, before the first write."""
    make, message = REFUSED[name]
    zookeeper = kafkas()
    zookeeper.register(2, 9)
    zookeeper.elected(2)
    make(zookeeper)
    before = dict(zookeeper.tree.nodes)
    with pytest.raises(ElectionRefusedError) as refused:
        async with server(zookeeper, take_over=take_it_over):
            pass
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
    assert zookeeper.tree.nodes == before
    assert not zookeeper.is_open


@story
async def test_of_many_faults_the_first_are_named() -> None:
    zookeeper = kafkas()
    for number in range(5):
        put(zookeeper, znodes.topic_path(f"t{number}"), b"{")
    put(zookeeper, znodes.topic_path("good"), topic((1, 2)))
    with pytest.raises(ElectionRefusedError, match=r"t[0-9]: not JSON.*; and 2 more; repair"):
        async with server(zookeeper):
            pass


@pytest.mark.parametrize(
    "make",
    [
        put_at(znodes.MIGRATION, migration(-1, -1, -1, -1)),  # Nobody has claimed it yet.
        put_state(state(-1, 1)),
        put_at("/brokers/topics/t", b'{"version":1,"partitions":{"0":[]}}'),
        put_at("/brokers/topics/t", b'{"version":1,"partitions":{}}'),
        put_at(znodes.LATEST_PRODUCER_ID_BLOCK, b""),
    ],
)
@story
async def test_what_is_in_order_is_taken_over(make: Callable[[Zookeeper], None]) -> None:
    zookeeper = kafkas()
    make(zookeeper)
    async with server(zookeeper) as started:
        await until(lambda: started.active.is_active)
    assert zookeeper.epoch == 1


async def ended(started: ControllerServer) -> str:
    """Why it ended."""
    async with asyncio.timeout(10):
        with pytest.raises(ElectionRefusedError) as refused:
            await started.wait_failed()
    return str(refused.value)


@story
async def test_a_broker_that_registers_under_our_id_ends_an_active_controller() -> None:
    """The broker would believe that it controls: it is left alone with it."""
    zookeeper = kafkas()
    async with server(zookeeper) as started:
        await until(lambda: started.active.is_active)
        zookeeper.register(US, 9)
        assert (await ended(started)).startswith("broker 1000 is registered in ZooKeeper: ")
        assert zookeeper.controller is None
        assert US not in started.active.table.brokers


@story
async def test_a_migration_that_began_since_ends_a_controller_at_its_next_election() -> None:
    zookeeper = kafkas()
    zookeeper.elected(OTHER)
    async with server(zookeeper) as started:
        put(zookeeper, znodes.MIGRATION, MIGRATING)
        zookeeper.resigned()
        assert (await ended(started)).startswith("/migration: KRaft controller 3000")
        assert zookeeper.controller is None and zookeeper.epoch == 1


@story
async def test_another_controller_of_our_id_is_logged_and_ends_this_one_if_it_lives_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(eligibility, "GRACE_S", 0.0)
    zookeeper = kafkas()
    zookeeper.elected(US)
    with caplog.at_level(logging.WARNING):
        async with server(zookeeper, take_over=True, session_timeout_ms=50) as started:
            message = await ended(started)
    assert message.startswith(f"another controller runs under id {US}, in ZooKeeper session {OTHERS:#x}: ")
    warnings = [record.getMessage() for record in caplog.records]
    assert [line for line in warnings if "in another session" in line] == warnings[:1]
    assert (zookeeper.controller, zookeeper.epoch) == (US, 1), "it controls still"


@story
async def test_a_controller_that_was_killed_leaves_its_znode_for_a_while() -> None:
    """Its successor under the same id waits, and takes over when the session is over."""
    zookeeper = kafkas()
    zookeeper.elected(US)
    async with server(zookeeper) as started:
        await asyncio.sleep(0.05)
        assert not started.active.is_active
        zookeeper.resigned()
        await until(lambda: started.active.is_active)
        assert (zookeeper.controller, zookeeper.owner) == (US, OURS)


@story
async def test_a_second_look_before_its_time_is_no_reason_to_give_up() -> None:
    """Something else may change `/controller` meanwhile; another session begins the wait anew."""
    zookeeper = kafkas()
    zookeeper.elected(US)
    async with server(zookeeper) as started:
        for session in (OTHERS, OTHERS, OTHERS + 1, OTHERS + 1):
            zookeeper.elected(US, session)
            await asyncio.sleep(0.02)
        zookeeper.resigned()
        await until(lambda: started.active.is_active)


@story
async def test_an_active_controller_whose_id_is_in_another_session_resigns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "GRACE_S", 60.0)
    zookeeper = kafkas()
    async with server(zookeeper) as started:
        await until(lambda: started.active.is_active)
        zookeeper.elected(US)
        await until(lambda: not started.active.is_active)


@story
async def test_a_controller_znode_that_makes_no_sense_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    zookeeper = kafkas()
    zookeeper.elected(OTHER)
    with caplog.at_level(logging.WARNING):
        async with server(zookeeper, take_over=True) as started:
            zookeeper.tree.set_data(znodes.CONTROLLER, b"none")
            zookeeper.tell()
            await until(lambda: "the controller is unknown until this znode changes: /controller" in caplog.text)
            assert not started.active.is_active
            zookeeper.resigned()
            await until(lambda: started.active.is_active)


def test_another_session_has_twice_the_time_of_a_session() -> None:
    """A session that its process did not close lives on for its time-out, and for up to two ticks of ZooKeeper."""
    twin = eligibility.DuplicateController(US, 6.0)
    assert twin.wait_s == 12.0 + eligibility.GRACE_S
    assert twin.is_new(OTHERS, 100.0) and not twin.is_new(OTHERS, 100.0 + twin.wait_s - 0.001)
    with pytest.raises(ElectionRefusedError, match=f"another controller runs under id {US}"):
        twin.is_new(OTHERS, 100.0 + twin.wait_s)


@pytest.mark.parametrize(("owner", "own", "is_here"), [(OURS, OURS, True), (OTHERS, OURS, False), (0, 0, False)])
def test_a_persistent_controller_znode_is_of_no_session(owner: int, own: int, is_here: bool) -> None:
    """ZooKeeper's owner of a persistent znode is 0, which is also the id of a session that is not there yet."""
    data = json.dumps({"version": 1, "brokerid": US, "timestamp": "0"}).encode()

    async def read_nodes(paths: list[str], on_watch: Any) -> list[Any]:
        return [SimpleNamespace(data=data)]

    async def stat(path: str) -> Any:
        return SimpleNamespace(ephemeralOwner=owner)

    zookeeper: Any = SimpleNamespace(read_nodes=read_nodes, stat=stat, session=SimpleNamespace(id=own))
    holder = asyncio.run(eligibility.read_holder(zookeeper, lambda path, kind: None))
    assert holder == eligibility.Holder(US, owner, is_here)
