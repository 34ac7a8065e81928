"""Writes an audit log with a line of JSON per request: principal, API, address, forwarding broker and result.

All servers write the same lines. A line names the API and counts its items. No line has a field of a request or a
response, so no line has a secret. Requests of the APIs in QUIET, which are frequent or only read, have a line only if
authorization failed. Files are bounded in size and number, as those of log4j's RollingFileAppender.
"""

import json
import logging
from collections import Counter
from datetime import UTC, datetime
from itertools import chain
from logging.handlers import RotatingFileHandler
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from kcore.errors import KcoreError
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.limits.bounded_log import BoundedLog
from kcore.net.request_context import RequestContext
from kcore.net.versions import api_name, response_of
from kcore.protocol_errors import Errors
from kcore.schema.headers import ResponseHeader
from kcore.schema.index import REQUESTS
from kcore.schema.structure import Message, Struct
from kcore.wire.codec import decode_from

logger = logging.getLogger(__name__)
FILE_BYTES: Final = 64 * 1024 * 1024
MOST_BYTES: Final = 256 * 1024  # A longer frame is not decoded for the audit log.
UNREAD: Final = "not read"  # The outcome of a response that is not decoded.
FILES: Final = 10  # The current file, and the older ones FILE.1 (the newest) to FILE.9.
QUIET: Final = frozenset(
    {
        *("ApiVersions", "Metadata", "DescribeCluster", "DescribeAcls", "SaslHandshake", "SaslAuthenticate"),
        *("Fetch", "FetchSnapshot", "BrokerHeartbeat", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "DescribeQuorum"),
        *("Produce", "ListOffsets", "OffsetForLeaderEpoch", "FindCoordinator", "InitProducerId", "Heartbeat"),
        *("OffsetFetch", "OffsetCommit", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn", "AllocateProducerIds"),
        *("AlterPartition", "UpdateMetadata", "ConsumerGroupHeartbeat"),
    }
)
"""APIs that have a line in the audit log only if authorization failed."""


class _Files(RotatingFileHandler):
    """The log's files. If the disk is full, errors are logged at a bounded rate, and no request fails."""

    def __init__(self, path: Path, file_bytes: int, files: int) -> None:
        super().__init__(path, maxBytes=file_bytes, backupCount=files - 1, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(message)s"))
        self._log = BoundedLog(logger, burst=1, every_s=60.0)

    def handleError(self, record: logging.LogRecord) -> None:
        self._log.exception("the audit log %s cannot be written", self.baseFilename)


class AuditLog:
    """An audit log, which appends lines to a file."""

    def __init__(self, path: Path, *, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        """OSError if the file cannot be opened."""
        self._handler = _Files(path, file_bytes, files)

    def close(self) -> None:
        """Closes the file."""
        self._handler.close()

    def write(
        self,
        wall_ms: int,
        principal: KafkaPrincipal,
        client_address: str,
        request: Message,
        response: Message | None,
        through: KafkaPrincipal | None = None,
        through_address: str | None = None,
    ) -> None:
        """Writes the line of a request. `wall_ms`: since 1970. `principal`, `client_address`: of the original client.

        `through`, `through_address`: of the node that forwarded the request; None if no node did.
        """
        name, outcome = api_name(type(request)), outcome_of(response)
        if is_logged(name, outcome):
            via = {"through": through and str(through), "through_address": through_address}
            self.line(wall_ms, principal, client_address, name, items_of(request), outcome, **via)

    def write_frame(self, wall_ms: int, context: RequestContext, answer: bytes | None) -> None:
        """As `write`, for a request that another node has answered. `answer`: None if the connection is closed."""
        kind, version = REQUESTS[context.api_key], context.version
        name, outcome = api_name(kind), _outcome(kind, version, answer)
        if is_logged(name, outcome):
            self.line(wall_ms, context.principal, context.client_address, name, _items(kind, context), outcome)

    def line(
        self,
        wall_ms: int,
        principal: KafkaPrincipal,
        client_address: str,
        name: str,
        items: int | None,
        outcome: dict[str, int] | str,
        **via: str | None,
    ) -> None:
        """Writes one line. `items`: None if not counted."""
        line = {
            "time": datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "principal": str(principal),
            "address": client_address,
            **{key: value for key, value in via.items() if value is not None},
            "request": name,
            **({} if items is None else {"items": items}),
            "outcome": outcome,
        }
        text = json.dumps(line, ensure_ascii=True)
        self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))


def is_logged(name: str, outcome: dict[str, int] | str) -> bool:
    """Whether a request of this API with this outcome has a line."""
    return name not in QUIET or any(each.endswith("_AUTHORIZATION_FAILED") for each in outcome)


def items_of(request: Message) -> int:
    """How many topics, resources, users or entries a request names at its top."""
    names: list[str] = [*type(request).__slots__]
    values: list[Any] = [getattr(request, name) for name in names]
    return sum(len(value) for value in values if isinstance(value, list))


def outcome_of(response: Message | None) -> dict[str, int] | str:
    """Counts the errors of a response by name; `no response` if the connection was closed instead.

    No Python code runs for each item: a hundred thousand of them take some milliseconds.
    """
    if response is None:
        return "no response"
    codes = Counter[int]()
    _count(codes, type(response), [response], depth=2)
    names = Counter[str]()
    for code, count in codes.items():
        names[Errors.of(code).name] += count
    return dict(sorted(names.items())) or {"NONE": 1}


def _count(codes: Counter[int], kind: type[Struct], structs: list[Any], depth: int) -> None:
    """Counts the error codes of these structs, all of class `kind`, and of their items."""
    for field in kind.__fields__:
        if field.name == "error_code":
            codes.update(map(attrgetter("error_code"), structs))
        element = field.type.element
        if depth and element is not None and element.struct is not None:
            lists = [each for each in map(attrgetter(field.name), structs) if isinstance(each, list)]  # It may be null.
            _count(codes, element.struct, [*chain.from_iterable(lists)], depth - 1)


def _items(kind: type[Message], context: RequestContext) -> int | None:
    try:
        if len(context.frame) > MOST_BYTES:
            return None
        return items_of(decode_from(kind, context.version, context.frame, context.body_at)[0])
    except KcoreError:  # An unsupported version, or a malformed request.
        return None


def _outcome(kind: type[Message], version: int, answer: bytes | None) -> dict[str, int] | str:
    if answer is None:
        return outcome_of(None)
    response = response_of(kind)
    try:
        if len(answer) > MOST_BYTES:
            return UNREAD
        _, at = decode_from(ResponseHeader, response.header_version(version), answer)
        return outcome_of(decode_from(response, version, answer, at)[0])
    except KcoreError:
        return UNREAD
