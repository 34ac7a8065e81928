"""The frames of an observer's fetches and of their answers, with the places of the fields that change."""

from copy import copy
from typing import Final

from kcore.net.adoption import Direct
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse
from kcore.schema.headers import ResponseHeader
from kcore.wire.frame_places import frame, is_made_of, with_places

FIELDS: Final = {"correlation_id": 4, "fetch_offset": 8, "last_fetched_epoch": 4, "high_watermark": 8}
ANSWERED: Final = ("correlation_id", "high_watermark")
PLACE_OF_VERSION: Final = 6  # The API version follows the frame's size and the API key.

Places = tuple[int, int, int, int | None]
Template = tuple[bytes, int, int, bytes]
"""An answer up to the length of its records, where in it are correlation id and high watermark, and what follows."""


def fetch_pattern(direct: Direct, request: FetchRequest, partition: FetchPartition) -> tuple[bytes, Places] | None:
    """The frame of that request with its size, and the places of FIELDS; None for bytes that kcore would not write.

    The request is used up.
    """
    header, version = direct.context.header, direct.context.version
    values = {name: getattr(header if name == "correlation_id" else partition, name) for name in FIELDS}

    def build(**fields: int) -> bytes:
        for name, value in fields.items():
            setattr(header if name == "correlation_id" else partition, name, value)
        return frame(header, request, version)

    zeros, places = with_places(build, [*FIELDS])
    build(**values)
    pattern = len(direct.frame).to_bytes(4, "big") + direct.frame
    fields = [(at, values[name], width) for (name, width), at in zip(FIELDS.items(), places, strict=True)]
    if not is_made_of(pattern, zeros, fields):
        return None
    correlation_id, fetch_offset, last_fetched_epoch, high_watermark = places
    assert correlation_id is not None and fetch_offset is not None and last_fetched_epoch is not None
    return pattern, (correlation_id, fetch_offset, last_fetched_epoch, high_watermark)


def fetch_template(empty: FetchResponse, version: int) -> Template:
    """The template of answers that differ only in records and high watermark from `empty`, which has no records."""
    response, header = _own_copy(empty), ResponseHeader(correlation_id=0)
    [data] = response.responses[0].partitions

    def build(correlation_id: int, high_watermark: int) -> bytes:
        header.correlation_id, data.high_watermark = correlation_id, high_watermark
        return frame(header, response, version)

    nothing, (correlation_place, high_watermark_place) = with_places(build, ANSWERED)
    data.records = b"\0"
    one_byte = build(0, 0)
    length = next(at for at in range(4, len(nothing)) if nothing[at] != one_byte[at])
    assert correlation_place is not None and high_watermark_place is not None
    return nothing[:length], correlation_place, high_watermark_place, nothing[length + 1 :]


def _own_copy(response: FetchResponse) -> FetchResponse:
    """One whose partition may be changed."""
    found = copy(response)
    topic = copy(response.responses[0])
    topic.partitions = [copy(topic.partitions[0])]
    found.responses = [topic]
    return found
