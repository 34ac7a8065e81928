"""The same bytes to a real 3.9.1 broker and to kcore's, over the wire: the same errors, or the same offsets.

Each broker leads a topic of each configuration. The test sends recorded batches, and copies of them with changed bytes
behind the header and a recomputed CRC.
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import cases
from kcore.measure.processes.local_process import free_ports
from kcore.measure.processes.zk_cluster import ZkBrokers, ZookeeperProcess
from kcore.net.connect import connect
from kcore.net.connection import Connection
from kcore.protocol_errors import Errors
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.wire.record_batch import HEADER_END, TRANSACTIONAL, crc32c
from oracle.kafka_tools import TOPICS, run_tool
from oracle.kcore_brokers import KcoreBroker, topic_at, until

CONFIGURED = {
    "plain": (),
    "zstd": ("compression.type=zstd",),
    "uncompressed": ("compression.type=uncompressed", "message.timestamp.type=LogAppendTime"),
    "compacted": ("cleanup.policy=compact", "compression.type=lz4"),
    "late": ("message.timestamp.before.max.ms=1000",),
}
KAFKAS, KCORES = 1, 11
BATCHES = 400
VERSION = 9


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, str]]:
    """The addresses of both brokers, once they lead the topics."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZookeeperProcess())
        real = stack.enter_context(ZkBrokers(zookeeper.address, 1))
        [port] = free_ports(1)
        folder: Path = tmp_path_factory.mktemp("kcore-broker")
        ours = KcoreBroker(KCORES, port, folder, zookeeper.address)
        stack.callback(ours.kill)
        ours.start()
        found = {KAFKAS: real[1].address, KCORES: ours.address}
        for name, configs in CONFIGURED.items():
            options = [word for config in configs for word in ("--config", config)]
            for broker_id in found:
                made_by = ("--bootstrap-server", real.bootstrap, "--create", "--topic", f"{name}-{broker_id}")
                run_tool(TOPICS, *made_by, "--replica-assignment", str(broker_id), *options)
        for name in CONFIGURED:
            for broker_id, address in found.items():
                topic = f"{name}-{broker_id}"
                until(lambda: topic_at(address, topic)[0].leader == broker_id, ours.said)  # noqa: B023
        yield found


def sent() -> Iterator[bytes]:
    """Recorded batches as they are, and changed."""
    dice = random.Random(16)
    recorded = [bytes.fromhex(case["hex"]) for case in cases.load("log_validator_3.9.1")]
    for data in dice.sample([each for each in recorded if len(each) < 20_000], BATCHES):
        if len(data) > 22 and data[22] & TRANSACTIONAL:
            continue  # Kafka's broker would ask a coordinator.
        yield data
        if len(data) <= HEADER_END:
            continue
        changed = bytearray(data)
        for _ in range(dice.choice([1, 1, 2])):
            place = dice.randrange(HEADER_END, len(changed))
            changed[place] = dice.choice([changed[place] ^ 1 << dice.randrange(8), 0, 0xFF])
        if dice.random() < 0.2:
            del changed[dice.randrange(HEADER_END, len(changed)) :]
        changed[:12] = bytes(8) + (len(changed) - 12).to_bytes(4, "big")
        changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
        yield bytes(changed)


async def produced(connection: Connection, topic: str, data: bytes) -> tuple[str, int]:
    """The leader's answer: its error, and the offset of the first record."""
    topics = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])]
    answer = await connection.send(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), VERSION)
    partition = answer.responses[0].partition_responses[0]
    return Errors(partition.error_code).name, int(partition.base_offset)


async def compare(addresses: dict[int, str]) -> dict[str, int]:
    """How often the brokers answered with each error."""
    dice, seen = random.Random(17), dict.fromkeys((error.name for error in Errors), 0)
    places = {each: address.split(":") for each, address in addresses.items()}
    kafka, ours = [await connect(host, int(port)) for host, port in places.values()]
    async with kafka, ours:
        for data in sent():
            name = dice.choice([*CONFIGURED])
            theirs = await produced(kafka, f"{name}-{KAFKAS}", data)
            assert await produced(ours, f"{name}-{KCORES}", data) == theirs, f"{name}: {data.hex()}"
            seen[theirs[0]] += 1
    return seen


def test_errors_and_offsets(addresses: dict[int, str]) -> None:
    seen = asyncio.run(compare(addresses))
    assert all(seen[error] > 5 for error in ("NONE", "INVALID_RECORD", "UNKNOWN_SERVER_ERROR", "INVALID_TIMESTAMP"))
