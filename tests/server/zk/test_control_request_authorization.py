"""A broker checks principal, listener and controller of control requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kcore
from kcore.errors import DisconnectedError
from kcore.metadata.acl_codes import ALLOW, CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, LITERAL
from kcore.metadata.zookeeper import znode_acls, znodes
from kcore.metadata.zookeeper.znode_acls import AclBinding
from kcore.metadata.zookeeper.znode_brokers import decode_broker
from kcore.net.connect import connect
from kcore.net.limits.connection_limits import CLIENT_VALUES, HEADER_VALUES
from kcore.node.zk.acls import AclAuthorizerSettings
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.server.properties.listeners import BrokerListener, BrokerListeners
from kcore.server.zk_broker import control_request_receiver
from kcore.server.zk_broker.zk_broker_listener_settings import ZkBrokerListenerSettings
from net.loops import request_frame, story, until
from server.replicas import CONTROLLER, TOPIC_ID, Brokers

STRANGER = 66
RESOURCE = CLUSTER, LITERAL, CLUSTER_NAME


@asynccontextmanager
async def brokers_in(folder: Path, **options: Any) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        brokers = await Brokers(stack, folder).open(server=options)
        yield brokers
        for server in brokers.servers.values():
            server.runtime.manager.cluster.controller_id = -1  # No server would answer the controlled shutdown.


def order(controller: int, epoch: int, *, leader_epoch: int = 7) -> LeaderAndIsrRequest:
    """To lead t-0."""
    state = {
        **{"partitionIndex": 0, "controllerEpoch": epoch, "leader": 1, "leaderEpoch": leader_epoch, "isr": [1, 2]},
        **{"replicas": [1, 2], "partitionEpoch": 1, "addingReplicas": [], "removingReplicas": [], "isNew": False},
        "leaderRecoveryState": 0,
    }
    topic = {"topicName": "t", "topicId": str(TOPIC_ID), "partitionStates": [state]}
    who = {"controllerId": controller, "controllerEpoch": epoch, "brokerEpoch": -1, "isKRaftController": False}
    fields = who | {"type": 0, "topicStates": [topic], "liveLeaders": []}
    return kcore.from_json("LeaderAndIsrRequest", 7, fields)  # type: ignore[return-value]


async def ask(brokers: Brokers, request: Any, version: int = 7, port: int | None = None) -> Errors:
    async with await connect("127.0.0.1", port or brokers.servers[1].port) as connection:
        return Errors((await connection.send(request, version)).error_code)


@story
async def test_a_forged_large_epoch_does_not_lock_the_controller_out(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        for epoch in (2, 3000, 2**31 - 1):
            assert await ask(brokers, order(STRANGER, epoch)) is Errors.NOT_CONTROLLER
            stop = StopReplicaRequest(controller_id=STRANGER, controller_epoch=epoch, broker_epoch=-1)
            assert await ask(brokers, stop, 4) is Errors.NOT_CONTROLLER
            update = UpdateMetadataRequest(controller_id=STRANGER, controller_epoch=epoch, broker_epoch=-1)
            assert await ask(brokers, update, 8) is Errors.NOT_CONTROLLER
        server = brokers.servers[1]
        assert (server.control.controller_epoch, server.runtime.manager.cluster.controller_id) == (1, CONTROLLER)
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.NONE


@story
async def test_a_refused_order_names_every_partition(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers, await connect("127.0.0.1", brokers.servers[1].port) as connection:
        answer = await connection.send(order(STRANGER, 3000), 7)
        [topic] = answer.topics
        assert [each.error_code for each in topic.partition_errors] == [Errors.NOT_CONTROLLER]
        assert not brokers.servers[1].runtime.manager.partitions


@story
async def test_an_epoch_has_one_controller(tmp_path: Path) -> None:
    """A sender with the right epoch and another id is refused: ISR changes would be sent to it."""
    async with brokers_in(tmp_path) as brokers:
        assert await ask(brokers, order(STRANGER, 1)) is Errors.NOT_CONTROLLER, "of a new epoch, by /controller"
        await brokers.elect(1)
        assert await ask(brokers, order(STRANGER, 1)) is Errors.NOT_CONTROLLER, "of the epoch that is obeyed"
        assert brokers.servers[1].runtime.manager.cluster.controller_id == CONTROLLER


@story
async def test_the_next_controller_is_believed_and_the_last_one_no_more(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        brokers.elected(3, 8)
        assert await ask(brokers, order(CONTROLLER, 2)) is Errors.STALE_CONTROLLER_EPOCH, "one that was deposed at once"
        assert await ask(brokers, order(8, 3)) is Errors.NONE
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.STALE_CONTROLLER_EPOCH
        assert brokers.servers[1].runtime.manager.cluster.controller_id == 8


@story
async def test_a_controller_that_has_just_died_is_still_believed(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        del brokers.tree.nodes[znodes.CONTROLLER]
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.NONE


@story
async def test_a_server_that_is_behind_is_not_the_last_word(tmp_path: Path) -> None:
    """The broker's ZooKeeper server may not know of the election yet: it is made to catch up."""
    async with brokers_in(tmp_path) as brokers:
        await brokers.elect(1)
        brokers.tree.on_sync = lambda: brokers.elected(2, 8)
        assert await ask(brokers, order(8, 2)) is Errors.NONE


@story
async def test_control_requests_need_cluster_action(tmp_path: Path) -> None:
    settings = AclAuthorizerSettings()
    async with brokers_in(tmp_path, listener_settings=ZkBrokerListenerSettings(authorizer=settings)) as brokers:
        for request, version in (
            (order(CONTROLLER, 1), 7),
            (StopReplicaRequest(controller_id=CONTROLLER, controller_epoch=1, broker_epoch=-1), 4),
            (UpdateMetadataRequest(controller_id=CONTROLLER, controller_epoch=1, broker_epoch=-1), 8),
        ):
            assert await ask(brokers, request, version) is Errors.CLUSTER_AUTHORIZATION_FAILED
        assert brokers.servers[1].control.controller_epoch == 0
        right = AclBinding(*RESOURCE, "User:ANONYMOUS", "*", CLUSTER_ACTION, ALLOW)
        change = f"{znode_acls.CHANGES[LITERAL]}/acl_changes_0000000000"
        brokers.tree.nodes[znode_acls.resource_path(RESOURCE)] = znode_acls.encode_acls([right]), 0, 0, 0
        brokers.tree.nodes[change] = znode_acls.encode_acl_change(RESOURCE), 0, 0, 0
        brokers.tree.fire(znode_acls.CHANGES[LITERAL])
        await until(lambda: brokers.servers[1].watched.acls.resources)
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.NONE


@story
async def test_a_large_unauthorized_request_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred MiB of partitions, or of tags in the header, would hold the event loop for seconds."""
    read: list[int] = []
    module = control_request_receiver
    decode = module.decode_columns
    monkeypatch.setattr(module, "decode_columns", lambda *given: read.append(len(given[2])) or decode(*given))
    request = order(CONTROLLER, 1)
    request.topic_states[0].partition_states *= CLIENT_VALUES // 40
    async with brokers_in(
        tmp_path, listener_settings=ZkBrokerListenerSettings(authorizer=AclAuthorizerSettings())
    ) as brokers:
        with pytest.raises(DisconnectedError):
            await ask(brokers, request)
        assert not read
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.CLUSTER_AUTHORIZATION_FAILED
        for count in (HEADER_VALUES, HEADER_VALUES + 1):
            reader, writer = await asyncio.open_connection("127.0.0.1", brokers.servers[1].port)
            tags = [(10 + tag, b"") for tag in range(count)]
            writer.write(request_frame(order(CONTROLLER, 1), 7, 7, unknown_tagged_fields=tags))
            assert bool(await reader.read(4)) == (count == HEADER_VALUES)
            writer.transport.abort()


@story
async def test_control_requests_come_in_on_the_control_plane_alone(tmp_path: Path) -> None:
    listeners = BrokerListeners((BrokerListener(), BrokerListener("CONTROL")))
    async with brokers_in(tmp_path, listener_settings=ZkBrokerListenerSettings(listeners, "CONTROL")) as brokers:
        assert await ask(brokers, order(CONTROLLER, 1)) is Errors.CLUSTER_AUTHORIZATION_FAILED
        node = brokers.tree.nodes[znodes.broker_path(1)]
        [plane] = [each for each in endpoints_of(node[0]) if each.listener == "CONTROL"]
        assert await ask(brokers, order(CONTROLLER, 1), port=plane.port) is Errors.NONE


def endpoints_of(data: bytes) -> list[Any]:
    return [*decode_broker(1, data).endpoints]
