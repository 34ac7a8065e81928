"""Transactions over sockets, and the responses of a broker that leads partitions of internal topics."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kcore.measure.processes.local_process import free_ports
from kcore.metadata.table.broker_table import Endpoint
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_brokers import BrokerNode, decode_broker, encode_broker
from kcore.protocol_errors import Errors
from kcore.schema.committed_offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from kcore.schema.find_coordinator import FindCoordinatorRequest
from kcore.schema.group_listing import ListGroupsRequest
from kcore.schema.index import message_class
from kcore.schema.producers import DescribeProducersRequest, ListTransactionsRequest, TopicRequest
from kcore.schema.structure import Struct
from kcore.schema.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    InitProducerIdRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kcore.server.broker.coordination import APIS
from net.loops import story, until
from server.replicas import CONTROLLER, Brokers

GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


@asynccontextmanager
async def brokers_in(
    folder: Path, *, coordinator: int | None = None, **apis: tuple[int, int]
) -> AsyncIterator[Brokers]:
    """Broker 1 leads t-0; `coordinator` leads both internal topics."""
    async with AsyncExitStack() as stack:
        brokers = Brokers(stack, folder)
        brokers.controller.apis |= apis
        await brokers.open()
        await brokers.elect(1)
        for topic in (GROUPS, TRANSACTIONS) if coordinator is not None else ():
            await brokers.set_leader(topic, coordinator or 0)
        yield brokers


def end(*, commit: bool) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, 5])]
    marker = WritableTxnMarker(producer_id=7, producer_epoch=0, transaction_result=commit, topics=topics)
    marker.coordinator_epoch = 3
    return WriteTxnMarkersRequest(markers=[marker])


@story
async def test_a_transaction_from_its_verification_to_its_end(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, coordinator=CONTROLLER) as brokers:
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == Errors.NONE
        [asked] = brokers.controller.of(AddPartitionsToTxnRequest)
        [transaction] = asked.transactions
        assert (transaction.transactional_id, transaction.producer_id, transaction.verify_only) == ("x", 7, True)
        assert [(each.name, each.partitions) for each in transaction.topics] == [("t", [0])]
        assert (await brokers.produce(1, b"b", transaction="x", sequence=1)).error_code == Errors.NONE
        assert len(brokers.controller.of(AddPartitionsToTxnRequest)) == 1, "the transaction is open by now"
        [data] = (await brokers.fetch(1, isolation_level=1)).responses[0].partitions
        assert (data.records, data.last_stable_offset) == (b"", 0)
        request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
        [producer] = (await brokers.ask(1, request)).topics[0].partitions[0].active_producers
        assert (producer.producer_id, producer.current_txn_start_offset) == (7, 0)
        [marker] = (await brokers.ask(1, end(commit=False), 1)).markers
        assert [each.error_code for each in marker.topics[0].partitions] == [0, Errors.UNKNOWN_TOPIC_OR_PARTITION]
        for broker_id in (1, 2):  # Consumers may read from a follower.
            log = next(iter(brokers.servers[broker_id].runtime.logs.directories.online[0].logs.values()))
            await until(lambda log=log: log.high_watermark == 3)  # type: ignore[misc]
            [data] = (await brokers.fetch(broker_id, isolation_level=1)).responses[0].partitions
            assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(7, 0)]
            assert data.last_stable_offset == 3


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (Errors.INVALID_TXN_STATE, Errors.INVALID_TXN_STATE),
        (Errors.NOT_COORDINATOR, Errors.NOT_ENOUGH_REPLICAS),
    ],
)
@story
async def test_what_the_coordinator_does_not_know_is_refused(tmp_path: Path, refusal: Errors, expected: Errors) -> None:
    async with brokers_in(tmp_path, coordinator=CONTROLLER) as brokers:
        brokers.controller.refusals = [refusal]
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == expected
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == Errors.NONE, "tried again"


@story
async def test_a_coordinator_that_cannot_be_found_or_reached(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == Errors.NOT_ENOUGH_REPLICAS
        await brokers.set_leader(TRANSACTIONS, CONTROLLER)
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == Errors.NONE
        assert (await brokers.ask(1, end(commit=True), 1)).markers
        [nobody] = free_ports(1)
        await brokers.set_leader(TRANSACTIONS, 5, nobody)
        assert (await brokers.produce(1, b"b", transaction="x", sequence=1)).error_code == Errors.NOT_ENOUGH_REPLICAS
        await brokers.set_leader(TRANSACTIONS, 1)
        response = await brokers.produce(1, b"b", transaction="x", sequence=1)
        assert response.error_code == Errors.UNSUPPORTED_VERSION, "this broker coordinates nothing"


@story
async def test_a_coordinator_from_before_kip_890_is_not_asked(tmp_path: Path) -> None:
    async with brokers_in(tmp_path, coordinator=CONTROLLER, AddPartitionsToTxn=(0, 3)) as brokers:
        assert (await brokers.produce(1, b"a", transaction="x")).error_code == Errors.NONE
        assert brokers.controller.of(AddPartitionsToTxnRequest) == []


def request_of(name: str, version: int) -> Any:
    """A request about the group "g" or the transaction "x", of partition t-0 where partitions are named."""
    message = message_class(f"{name}Request")
    match name:
        case "OffsetCommit":
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
            return message(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
        case "TxnOffsetCommit":
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
            topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[partition])]
            return message(group_id="g", transactional_id="x", topics=topics)
        case "OffsetFetch" if version >= 8:
            return message(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        case "OffsetFetch":
            return message(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        case "AddPartitionsToTxn" if version >= 4:
            topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
            return message(transactions=[AddPartitionsToTxnTransaction(transactional_id="x", topics=topics)])
        case "AddPartitionsToTxn":
            topics = [AddPartitionsToTxnTopic(name="t", partitions=[0])]
            return message(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
        case "DescribeGroups":
            return message(groups=["g"])
        case "DeleteGroups":
            return message(groups_names=["g"])
        case "ConsumerGroupDescribe":
            return message(group_ids=["g"])
        case "DescribeTransactions":
            return message(transactional_ids=["x"])
        case "AddOffsetsToTxn":
            return message(transactional_id="x", group_id="g")
        case "EndTxn":
            return message(transactional_id="x")
    return message(group_id="g")


def codes_of(answer: Any) -> list[int]:
    """Every error code in it."""
    if isinstance(answer, list):
        return [code for each in answer for code in codes_of(each)]
    if not isinstance(answer, Struct):
        return []
    named = [(name, getattr(answer, name)) for name in type(answer).__slots__]
    return [code for name, value in named for code in ([value] if name.endswith("error_code") else codes_of(value))]


@pytest.mark.parametrize("name", APIS)
@story
async def test_requests_of_coordinators_get_an_error_that_ends_the_asking(tmp_path: Path, name: str) -> None:
    """UNSUPPORTED_VERSION is not retriable; NOT_COORDINATOR lets a client find the broker that coordinates."""
    low, high = APIS[name]
    async with (
        brokers_in(tmp_path, coordinator=1) as brokers,
        brokers.connected(1) as to_1,
        brokers.connected(2) as to_2,
    ):
        for version in range(low, high + 1):
            request = request_of(name, version)
            for connection, error in ((to_1, Errors.UNSUPPORTED_VERSION), (to_2, Errors.NOT_COORDINATOR)):
                codes = {*codes_of(await connection.send(request, version))} - {0}
                has_code = (name, version) != ("OffsetFetch", 0) or codes
                assert codes == {error} if has_code else True, (version, codes)


@story
async def test_coordinators_are_found_and_impossible_ones_refused(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        registered = brokers.tree.nodes[znodes.broker_path(1)][0]
        assert decode_broker(1, registered).coordinates is False

        async def find(key_type: int, version: int = 4) -> Any:
            request = FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g"] if version >= 4 else [])
            if version >= 4:
                request.key = ""
                return (await brokers.ask(1, request, version)).coordinators[0]
            return await brokers.ask(1, request, version)

        for name, data in (("5x", b"{}"), ("6", b"no JSON")):  # Passed over.
            brokers.tree.nodes[f"{znodes.BROKER_IDS}/{name}"] = (data, 0, 1, 1)
        nobody = await find(0)
        assert nobody.error_code == Errors.UNSUPPORTED_VERSION
        assert nobody.error_message == "no broker of this cluster coordinates groups or transactions"
        brokers.servers[1].handlers.mode._admin._read_s = -10.0  # Records that were read are read again.
        kafka = encode_broker(BrokerNode([Endpoint(1, "127.0.0.1", "PLAINTEXT", 0)]), 0)
        brokers.tree.nodes[znodes.broker_path(5)] = (kafka, 0, 1, 1)
        assert (await find(0)).error_code == Errors.COORDINATOR_NOT_AVAILABLE, "it makes the topic when it is asked"
        for key_type, topic in enumerate((GROUPS, TRANSACTIONS)):
            await brokers.set_leader(topic, CONTROLLER)
            assert (await find(key_type)).node_id == (await find(key_type, 3)).node_id == CONTROLLER
            await brokers.set_leader(topic, 5)
            assert (await find(key_type)).error_code == Errors.COORDINATOR_NOT_AVAILABLE, "it is dead"
            await brokers.set_leader(topic, 1)
            for version in (3, 4):
                ours = await find(key_type, version)
                assert (ours.error_code, ours.node_id) == (Errors.UNSUPPORTED_VERSION, -1)
                assert f"broker 1 leads partition 0 of {topic} and coordinates nothing" in ours.error_message
        transactional = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1)
        assert (await brokers.ask(1, transactional)).error_code == Errors.UNSUPPORTED_VERSION
        assert (await brokers.ask(2, transactional)).error_code == Errors.NOT_COORDINATOR
        assert (await find(2)).error_code == Errors.INVALID_REQUEST


@story
async def test_listings_of_groups_and_transactions_are_empty(tmp_path: Path) -> None:
    async with brokers_in(tmp_path) as brokers:
        assert (await brokers.ask(1, ListGroupsRequest())).groups == []
        assert (await brokers.ask(1, ListTransactionsRequest())).transaction_states == []
