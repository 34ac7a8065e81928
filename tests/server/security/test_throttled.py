"""The throttle time is written into an answer that is already encoded."""

from typing import Any

import pytest

from kcore.net.versions import response_of
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message
from kcore.schema.versions import Versions
from kcore.server.security.request_throttle import with_time
from kcore.wire.codec import decode_from, encode

FIELD = "throttle_time_ms"
HEADER = ResponseHeader(correlation_id=0x01020304)


def framed(response: Message, version: int) -> bytes:
    return bytes(encode(HEADER, response.header_version(version))) + bytes(encode(response, version))


def versions_of(kind: type[Message]) -> range:
    versions: Versions = kind.versions
    return range(max(versions.lowest, 0), versions.highest + 1)


@pytest.mark.parametrize("kind", sorted(map(response_of, REQUESTS.values()), key=str), ids=lambda kind: kind.__name__)
def test_every_response_says_it_where_its_version_can(kind: type[Any]) -> None:
    for version in versions_of(kind):
        for given_ms, used_ms, expected in ((0, 0, 0), (0, 700, 700), (800, 700, 800)):
            response = kind(**({FIELD: given_ms} if hasattr(kind(), FIELD) else {}))
            answer = framed(response, version)
            has_field = hasattr(response, FIELD) and framed(kind(**{FIELD: 5}), version) != framed(kind(), version)
            throttled, throttled_ms = with_time(answer, kind, version, used_ms)
            assert throttled_ms == (expected if has_field else used_ms)
            if has_field:
                setattr(response, FIELD, expected)
            assert throttled == framed(response, version)


def test_an_answer_whose_header_has_more_is_read() -> None:
    kind = response_of(next(each for each in REQUESTS.values() if each.__name__ == "CreateTopicsRequest"))
    tagged = b"\1\7\2ab"  # A tagged field that is not known.
    answer = bytes(4) + tagged + bytes(encode(kind(), 7))
    throttled, throttled_ms = with_time(answer, kind, 7, 70)
    assert throttled_ms == 70
    _, at = decode_from(ResponseHeader, 1, throttled)
    assert getattr(decode_from(kind, 7, throttled, at)[0], FIELD) == 70
