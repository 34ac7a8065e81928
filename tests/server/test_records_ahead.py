"""A producer's large compressed batches are checked beside the loop, and appended as if they had not been."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kcore import schema as s
from kcore.broker.replicas import log_validator
from kcore.broker.replicas.log_validator import FEW_BYTES, LogConfig, check_ahead, validate
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from net.loops import story
from server.replicas import Brokers

VALUES = [bytes([k % 251]) * (k % 97) for k in range(FEW_BYTES)]


def large(codec: str = "gzip") -> bytes:
    batch = bytes(encode_records([Record(k, k, None, value) for k, value in enumerate(VALUES)], codec=codec))
    assert len(batch) > FEW_BYTES
    return batch


def request_of(batch: bytes) -> ProduceRequest:
    topics = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
    return ProduceRequest(acks=1, timeout_ms=5_000, topic_data=topics)


@story
async def test_18_others_are_served_while_a_large_batch_is_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, begun, found = threading.Event(), threading.Event(), []
    check = log_validator._checked_records

    def slowly(*arguments: Any) -> Any:
        found.append(threading.current_thread() is threading.main_thread())
        begun.set()
        if not found[-1]:
            goes_on.wait(60)
        return check(*arguments)

    monkeypatch.setattr(log_validator, "_checked_records", slowly)
    async with AsyncExitStack() as stack:
        brokers = await Brokers(stack, tmp_path).open()
        await brokers.elect(1, 1)
        task = asyncio.create_task(brokers.ask(1, request_of(large()), 9))
        await asyncio.to_thread(begun.wait, 60)
        assert found == [False]
        assert (await brokers.ask(1, s.DescribeClusterRequest())).error_code == Errors.NONE
        goes_on.set()
        [told] = (await task).responses[0].partition_responses
        assert (told.error_code, told.base_offset) == (Errors.NONE, 0)
        assert found == [False]  # Not once more on the loop.
        assert (await brokers.produce(1, b"small", acks=1)).base_offset == len(VALUES)
        assert found == [False, True]


@pytest.mark.parametrize("damage", [False, True])
def test_what_is_known_ahead_is_what_would_be_found(damage: bool) -> None:
    data, config = large("none" if damage else "zstd"), LogConfig(compression_type="lz4")
    if damage:  # Its CRC matches, its last record is cut.
        rows = [Record(k, k, None, value) for k, value in enumerate(VALUES)]
        whole = bytearray(encode_records(rows, codec="none"))
        whole[61] ^= 0x7F
        whole[17:21] = log_validator.kernel.crc32c(memoryview(whole)[21:]).to_bytes(4)
        data = bytes(whole)

    def outcome(ahead: Any) -> Any:
        try:
            return validate(data, config, 5, 1, 99, ahead).data
        except ApiException as refusal:
            return refusal.error, str(refusal)

    ahead = check_ahead(data, config, 99)
    assert outcome(ahead) == outcome(None)
    assert isinstance(ahead.found, ApiException) == damage
    # Of other bytes, or by another configuration, nothing is known.
    assert outcome(check_ahead(large("snappy"), config, 99)) == outcome(None)
    assert outcome(check_ahead(data, LogConfig(), 99)) == outcome(None)
