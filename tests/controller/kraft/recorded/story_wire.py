"""The parts of stories: requests and responses as bytes and as Kafka's JSON, and the batches of a log."""

import base64
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import kcore
from kcore.schema.headers import RequestHeader, ResponseHeader
from kcore.schema.index import REQUESTS, message_class
from kcore.schema.structure import Message
from kcore.wire.codec import decode, decode_from, encode
from kcore.wire.metadata_frames import decode_metadata_record
from kcore.wire.records import CONTROL_MESSAGES

Json = dict[str, Any]
NAMES: dict[str, type[Message]] = {each.__name__.removesuffix("Request"): each for each in REQUESTS.values()}
CLIENT_ID = "story"
UNKNOWN = "unknown record"
VERSION = struct.Struct(">h")


def plain(value: Any) -> Any:
    """As it comes out of a file: bytes as base64. A copy."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def request_bytes(api: str, version: int, body: Json, correlation_id: int) -> bytes:
    """With its header, without its size."""
    cls = NAMES[api]
    header = RequestHeader(
        request_api_key=cls.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=CLIENT_ID,
    )
    return bytes(encode(header, cls.header_version(version))) + bytes(
        kcore.encode(kcore.from_json(cls, version, body), version)
    )


def response_json(api: str, version: int, data: bytes) -> tuple[Json, int]:
    """The body, and the version that it is in: ApiVersions refuses a version that it does not know in version 0."""
    cls = message_class(api + "Response")
    header_version = 0 if api == "ApiVersions" else cls.header_version(version)
    _, at = decode_from(ResponseHeader, header_version, data)
    body = bytes(data[at:])
    try:
        message = decode(cls, version, body)
    except Exception:
        if api != "ApiVersions":
            raise
        version, message = 0, decode(cls, 0, body)
    return plain(kcore.to_json(message, version)), version


def batches_of(data: bytes) -> Iterator[Json]:
    """Whole batches of a metadata log."""
    if not data:
        return
    records = kcore.wire.decode_records(data)
    bounds = records.batches
    found: list[Json] = [
        {"baseOffset": int(bounds.base_offset[k]), "epoch": int(bounds.partition_leader_epoch[k]), "records": []}
        for k in range(len(bounds))
    ]
    for k, row in zip(records.batch.tolist(), list(records), strict=True):
        if row.control_type is not None:
            name = CONTROL_MESSAGES[row.control_type]
            [version] = VERSION.unpack_from(row.value)
            message: Message = decode(message_class(name), version, row.value)
            found[k]["control"] = True
        else:
            try:
                message, version = decode_metadata_record(row.value)
            except kcore.errors.DecodeError:  # A record of a release that kcore does not have yet.
                unknown = {"type": UNKNOWN, "version": -1, "json": {"data": plain(bytes(row.value))}}
                found[k]["records"].append({"offset": row.offset, **unknown})
                continue
            name = type(message).__name__
        body = plain(kcore.to_json(message, version))
        found[k]["records"].append({"offset": row.offset, "type": name, "version": version, "json": body})
    yield from found
