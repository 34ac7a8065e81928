"""One body for many brokers: each broker gets the bytes of an encoding of its own."""

import pytest

import kcore
from kcore import EncodeError
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest, UpdateMetadataResponse
from kcore.wire import Columns

SINCE = {LeaderAndIsrRequest: 2, UpdateMetadataRequest: 5, StopReplicaRequest: 1}
REQUESTS = [(message, version) for message in SINCE for version in range(message.versions.highest + 1)]
EPOCHS = (-1, 0, 1, 2**40 + 3, 2**63 - 1)


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=str)
def test_every_broker_gets_its_own_epoch(message: type, version: int) -> None:
    def columns(broker_epoch: int) -> Columns:
        return Columns(message, controller_id=3, controller_epoch=8, broker_epoch=broker_epoch)

    fanout = kcore.wire.encode_fanout(columns(99), version)
    for epoch in EPOCHS:
        own = kcore.encode_columns(columns(epoch), version)
        assert fanout.bytes_for(epoch) == own
        head, tail = fanout.buffers(epoch)
        assert bytes(head) + bytes(tail) == own
    assert (fanout.bytes_for(1) != fanout.bytes_for(2)) == (version >= SINCE[message])


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=str)
def test_a_frame_has_its_size_and_header(message: type, version: int) -> None:
    columns = Columns(message, controller_id=3, controller_epoch=8, broker_epoch=5)
    fanout = kcore.wire.encode_fanout(columns, version, client_id="größe")
    for correlation_id in (0, 77, -1):
        frame = fanout.bytes_for(5, correlation_id)
        body = kcore.encode_columns(columns, version)
        header = frame[4 : len(frame) - len(body)]
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        assert frame.endswith(body)
        read = kcore.decode("RequestHeader", message.header_version(version), header)
        assert (read.request_api_key, read.request_api_version) == (message.api_key, version)
        assert (read.correlation_id, read.client_id) == (correlation_id, "größe")


def test_the_body_is_not_copied() -> None:
    fanout = kcore.wire.encode_fanout(Columns(UpdateMetadataRequest, broker_epoch=5), 8)
    tails = [fanout.buffers(epoch)[1] for epoch in EPOCHS]
    assert all(tail.obj is fanout.body for tail in tails)


def test_a_message_without_an_epoch_is_shared_whole() -> None:
    fanout = kcore.wire.Fanout(UpdateMetadataResponse, 6, b"\0\0\0")
    assert [bytes(part) for part in fanout.buffers(5)] == [b"", b"\0\0\0"]


@pytest.mark.parametrize("wrong", [{"broker_epoch": 2**63}, {"broker_epoch": 1, "correlation_id": 2**31}])
def test_numbers_that_do_not_fit(wrong: dict[str, int]) -> None:
    fanout = kcore.wire.encode_fanout(Columns(UpdateMetadataRequest), 8)
    with pytest.raises(EncodeError, match="is no int"):
        fanout.buffers(**wrong)
