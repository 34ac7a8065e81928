"""A producer's large compressed batches are checked beside the loop, and appended as if they had not been."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcore import schema as s
from kcore.broker.replicas import log_validator
from kcore.broker.replicas.log_validator import FEW_BYTES, LogConfig, precheck_records, validate
from kcore.broker.replicas.replica import Role
from kcore.errors import DisconnectedError
from kcore.protocol_errors import ApiException, Errors
from kcore.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcore.server.broker import record_checks
from kcore.server.broker.record_checks import RecordChecks
from kcore.wire.record_building import encode_records
from kcore.wire.records import Record
from net.loops import GENEROUS_S, story
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
async def test_other_clients_are_served_while_a_large_batch_is_decompressed(
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
        [response] = (await task).responses[0].partition_responses
        assert (response.error_code, response.base_offset) == (Errors.NONE, 0)
        assert found == [False]  # Not once more on the loop.
        assert (await brokers.produce(1, b"small", acks=1)).base_offset == len(VALUES)
        assert found == [False, True]


@story
async def test_a_partition_that_a_request_names_again_gets_its_last_records(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        brokers = await Brokers(stack, tmp_path).open()
        await brokers.elect(1, 1)
        request = request_of(large())
        request.topic_data *= 2
        [answer] = (await brokers.ask(1, request, 9)).responses
        assert [(each.error_code, each.base_offset) for each in answer.partition_responses] == [(Errors.NONE, 0)]
        assert (await brokers.produce(1, b"small", acks=1)).base_offset == len(VALUES)


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

    ahead = precheck_records(data, config, 99)
    assert outcome(ahead) == outcome(None)
    assert isinstance(ahead.found, ApiException) == damage
    # The result is not used for other bytes or another configuration.
    assert outcome(precheck_records(large("snappy"), config, 99)) == outcome(None)
    assert outcome(precheck_records(data, LogConfig(), 99)) == outcome(None)


class _Asking:
    """Producers of one broker that ask at once; `order` has their names as their batches were checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.goes_on = threading.Event()
        self._ahead = RecordChecks()
        partition = SimpleNamespace(role=Role.LEADER, settings=SimpleNamespace(log=LogConfig()))
        self._manager: Any = SimpleNamespace(partitions={("t", 0): partition})
        monkeypatch.setattr(record_checks, "precheck_records", self._check)

    def _check(self, records: bytes, *_: Any) -> None:
        self.goes_on.wait(60)
        self.order.append(records[61:].rstrip(b".").decode())

    def begin(self, name: str, address: str, size: int, gone: Any = None) -> "asyncio.Task[Any]":
        batch = bytes(22) + b"\1" + bytes(38) + name.encode().ljust(FEW_BYTES + size, b".")
        context: Any = SimpleNamespace(client_address=address, gone=gone)
        return asyncio.create_task(self._ahead.checked(self._manager, request_of(batch), 0, context))


@story
async def test_addresses_have_their_turns_and_small_batches_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer of batches that are far more than their bytes keeps no other one waiting."""
    asking = _Asking(monkeypatch)
    bombs = [asking.begin(f"bomb {number}", "10.0.0.1", 900) for number in range(5)]
    rest = [asking.begin("small", "10.0.0.1", 10), asking.begin("other", "10.0.0.2", 5_000)]
    await asyncio.sleep(0)
    asking.goes_on.set()
    await asyncio.gather(*bombs, *rest)
    assert asking.order == ["bomb 0", "small", "other", "bomb 1", "bomb 2", "bomb 3", "bomb 4"]


@story
async def test_the_batch_of_a_client_that_has_gone_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    asking, gone = _Asking(monkeypatch), asyncio.get_running_loop().create_future()
    first, lost, last = (
        asking.begin(name, "10.0.0.1", 1, gone) for name, gone in (("1", None), ("2", gone), ("3", None))
    )
    cancelled = asking.begin("4", "10.0.0.1", 0)
    await asyncio.sleep(0)
    gone.set_result(None)
    cancelled.cancel()
    asking.goes_on.set()
    with pytest.raises(DisconnectedError, match="has disconnected"):
        await lost
    await asyncio.gather(first, last)
    assert asking.order == ["1", "3"]


@story
async def test_a_turn_of_a_client_that_goes_in_that_moment_is_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = _Asking(monkeypatch)
    first, second, third = (asking.begin(name, "10.0.0.1", int(name)) for name in "123")
    await asyncio.sleep(0)
    go_on = asking._ahead._release_slot

    def and_cancel() -> None:
        go_on()
        second.cancel()

    monkeypatch.setattr(asking._ahead, "_release_slot", and_cancel)
    asking.goes_on.set()
    async with asyncio.timeout(GENEROUS_S):
        await asyncio.gather(first, third)
    assert asking.order == ["1", "3"] and second.cancelled()


@story
async def test_records_for_another_leader_are_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    asking = _Asking(monkeypatch)
    asking.goes_on.set()
    asking._manager.partitions["t", 0].role = Role.FOLLOWER
    assert await asking.begin("1", "10.0.0.1", 0) == {}
    asking._manager.partitions.clear()
    assert await asking.begin("2", "10.0.0.1", 0) == {} and not asking.order
