"""The checks of a producer's records against Kafka's own classes of both releases."""

import hashlib
from typing import Any

import pytest

import cases
from broker.memory_log import MemoryLog
from kcore.broker.replicas.appending import Appended, append_as_leader
from kcore.broker.replicas.log_validator import (
    LogConfig,
    RecordValidationException,
    check_headers,
    has_transactional_records,
    transactional_producer,
)
from kcore.broker.replicas.producers import Producers
from kcore.protocol_errors import ApiException
from kcore.wire.record_batch import RecordBatches
from kcore.wire.record_building import CODECS
from kcore.wire.records import decode_records

VERSIONS = pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])


class ProducersOfOldLog(Producers):
    """The recorded logs have had records, also where their next offset is 0."""

    def check(self, batches: RecordBatches, guard: object | None = None, *, is_new_log: bool = False) -> None:
        super().check(batches, guard)


def config_of(recorded: dict[str, Any]) -> LogConfig:
    return LogConfig(
        max_message_bytes=recorded["maxMessageBytes"],
        compression_type=recorded["compression"],
        is_compacted=recorded["compact"],
        has_log_append_time=recorded["timestampType"] == "LogAppendTime",
        timestamp_before_max_ms=recorded["beforeMaxMs"],
        timestamp_after_max_ms=recorded["afterMaxMs"],
    )


def judged(case: dict[str, Any], log: MemoryLog) -> tuple[Appended | ApiException, bool]:
    """The result of a partition's records, and whether the whole request is refused."""
    recorded, data = case["config"], bytes.fromhex(case["hex"])
    log.start_offset = log.end_offset = recorded["nextOffset"]
    log.producers = ProducersOfOldLog()
    try:
        has_transactional_records([data])
        [refusal] = check_headers([data], recorded["produceVersion"])
        producer = transactional_producer(data) if refusal is None else None
    except ApiException as error:
        return error, True
    if refusal is not None:
        return refusal, False
    guard = None if producer is None else log.producers.begin_verification(*producer)
    try:
        found = append_as_leader(log, data, recorded["leaderEpoch"], config_of(recorded), recorded["now"], guard)
        return found, False
    except ApiException as error:
        return error, False


def sized(value: bytes | None) -> Any:
    """Hex, or the size and hash that stand for what is longer than 4 KiB."""
    if value is None:
        return None
    if len(value) <= 4096:
        return value.hex()
    return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def response(batch: bytes) -> dict[str, Any]:
    """A batch that was built anew, as the recorded files have it."""
    records = decode_records(batch)
    headers = records.batches
    of = {
        "baseOffset": headers.base_offset,
        "partitionLeaderEpoch": headers.partition_leader_epoch,
        "magic": headers.magic,
        "attributes": headers.attributes,
        "lastOffsetDelta": headers.last_offset_delta,
        "baseTimestamp": headers.base_timestamp,
        "maxTimestamp": headers.max_timestamp,
        "producerId": headers.producer_id,
        "producerEpoch": headers.producer_epoch,
        "baseSequence": headers.base_sequence,
        "count": headers.count,
    }
    whole = {name: int(column[0]) for name, column in of.items()} | {"codec": CODECS[headers.attributes[0] & 7]}
    rows = []
    for row, record in enumerate(records):
        plain: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
        plain |= {"key": sized(record.key), "value": sized(record.value)}
        if spans := records.headers(row):
            plain["headers"] = [[name.encode("utf-8", "surrogateescape").hex(), sized(value)] for name, value in spans]
        rows.append(plain)
    return {"batch": whole, "records": rows}


def compare_bytes(recorded: dict[str, Any], batch: bytes, place: str) -> None:
    if "hex" in recorded:
        assert batch.hex() == recorded["hex"], place
    elif "sha256" in recorded:
        assert (len(batch), hashlib.sha256(batch).hexdigest()) == (recorded["size"], recorded["sha256"]), place
    else:
        assert response(batch) == {"batch": recorded["batch"], "records": recorded["records"]}, place


@pytest.mark.recorded
@VERSIONS
def test_every_batch_has_kafkas_error_or_its_offsets_and_bytes(version: str) -> None:
    for case in cases.load(f"log_validator_{version}"):
        place, recorded, log = f"case {case['i']}, {case['kind']}", case["out"], MemoryLog()
        if recorded["exception"] == "OutOfMemoryError":
            continue  # The JVM's limit, no rule.
        found, is_whole = judged(case, log)
        if isinstance(found, ApiException):
            assert found.error.name == recorded["error"], f"{place}: {found}"
            assert is_whole == recorded.get("wholeRequest", False), place
            record_errors = found.record_errors if isinstance(found, RecordValidationException) else ()
            assert [each.batch_index for each in record_errors] == [
                each["batchIndex"] for each in recorded.get("recordErrors", ())
            ], place
            assert log.batches == [], place
        else:
            assert recorded["error"] is None, f"{place}: {found}, not {recorded['error']}"
            offsets = recorded["baseOffset"], recorded["lastOffset"], recorded["logAppendTime"]
            assert found == offsets and log.end_offset == recorded["logEndOffset"], place
            compare_bytes(recorded, log.batches[0], place)
