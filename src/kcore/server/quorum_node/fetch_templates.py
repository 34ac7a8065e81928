"""The pattern of observers' fetches, and the templates of the answers that the answer loop sends in this node's place.

Consecutive Fetch requests of an observer in one epoch differ only in four fields: correlation id, fetch offset, last
fetched epoch and high watermark. Their answers differ only in the records and the high watermark.
"""

from collections.abc import Mapping
from copy import copy
from typing import Final

from kcore._ext import answer_loop as kernel
from kcore.net.adoption import Direct
from kcore.protocol_errors import Errors
from kcore.raft import fetching
from kcore.raft.node import RaftNode
from kcore.replication.raft_log import OffsetAndEpoch, ValidOffsetAndEpoch
from kcore.schema.fetch import FetchPartition, FetchRequest, FetchResponse
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message, Struct
from kcore.wire.frame_places import frame, is_made_of, with_places

FIELDS: Final = {"correlation_id": 4, "fetch_offset": 8, "last_fetched_epoch": 4, "high_watermark": 8}
ANSWERED: Final = ("correlation_id", "high_watermark")
PLACE_OF_VERSION: Final = 6  # The API version follows the frame's size and the API key.
VALID: Final = ValidOffsetAndEpoch("VALID", OffsetAndEpoch(0, 0))

Places = tuple[int, int, int, int | None]
Template = tuple[bytes, int, int, bytes]
"""A response up to the length of its records; the positions of correlation id and high watermark in it; the rest."""


def request_pattern(direct: Direct, part: Struct, widths: Mapping[str, int]) -> tuple[bytes, list[int | None]] | None:
    """The request's frame with its size, and the positions of these fields; None if kcore would encode it otherwise.

    The first field is the header's correlation id, the others are fields of `part`, which is the request or a part of
    it. `widths`: the fields' bytes. The fields are changed and set back.
    """
    header, version = direct.context.header, direct.context.version
    values = {name: getattr(header if name == "correlation_id" else part, name) for name in widths}

    def build(**fields: int) -> bytes:
        for name, value in fields.items():
            setattr(header if name == "correlation_id" else part, name, value)
        return frame(header, direct.request, version)

    zeros, places = with_places(build, [*widths])
    build(**values)
    pattern = len(direct.frame).to_bytes(4, "big") + direct.frame
    fields = zip(places, values.values(), widths.values(), strict=True)
    return (pattern, places) if is_made_of(pattern, zeros, fields) else None


def fetch_pattern(direct: Direct, partition: FetchPartition) -> tuple[bytes, Places] | None:
    """The pattern of a fetch, with the positions of FIELDS; see `request_pattern`."""
    found = request_pattern(direct, partition, FIELDS)
    if found is None:
        return None
    pattern, (correlation_id, fetch_offset, last_fetched_epoch, high_watermark) = found
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
    """A copy of the response whose partition may be changed."""
    found = copy(response)
    topic = copy(response.responses[0])
    topic.partitions = [copy(topic.partitions[0])]
    found.responses = [topic]
    return found


class FetchTemplates:
    """The loop's templates by version, and the error responses to fetches that still wait when the node resigns."""

    def __init__(self, loop: kernel.Loop, node: RaftNode) -> None:
        self._loop, self._node = loop, node
        self._refusals: dict[int, FetchResponse] = {}  # By version of Fetch.
        self._owed: dict[int, FetchResponse] = {}  # The refusals to send, by connection.
        self.is_resigning = False

    def __contains__(self, version: int) -> bool:
        return version in self._refusals

    def make(self, version: int) -> None:
        """Sets the loop's template of responses in this version; also makes the error response of a resigning node."""
        node = self._node
        self._refusals[version] = fetching.error_response(node, version, Errors.NOT_LEADER_OR_FOLLOWER)
        empty = fetching.fetch_response(node, version, Errors.NONE, b"", VALID)
        self._loop.set_template(version, *fetch_template(empty, version))

    def renew(self) -> None:
        """Sets all templates again, after a change of the fields that all answers have."""
        for version in self._refusals:
            self.make(version)

    def left(self, connection_id: int, received: bytes) -> None:
        """Keeps the error response to a fetch that waited in the loop when the node resigned, for `owed_to`."""
        if self.is_resigning and len(received) > PLACE_OF_VERSION + 1:
            version = int.from_bytes(received[PLACE_OF_VERSION : PLACE_OF_VERSION + 2], "big")
            if (refusal := self._refusals.get(version)) is not None:
                self._owed[connection_id] = refusal

    def owed_to(self, connection_id: int, request: Message) -> FetchResponse | None:
        """The error response to a fetch that waited in the loop when the node resigned; None for other requests."""
        if not self._owed:
            return None
        owed = self._owed.pop(connection_id, None)
        partition = fetching.metadata_partition(request) if isinstance(request, FetchRequest) else None
        if owed is None or partition is None:
            return None
        led_epoch = owed.responses[0].partitions[0].current_leader.leader_epoch
        return owed if partition.current_leader_epoch == led_epoch else None

    def clear(self) -> None:
        """Drops all templates, because the node has another role. The owed responses are still sent."""
        self._refusals.clear()

    def resign(self) -> None:
        """Drops the responses owed since an earlier resignation."""
        self._owed.clear()
