"""An audit log: who asked what, from where, through whom, and what came of it; a line of JSON for each request.

Lines name the API and count its items: no field of a request or a response is in them, so no secret can be.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kcore.metadata.principal import KafkaPrincipal
from kcore.net.versions import api_name
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message, Struct


class AuditLog:
    """Appends to a file."""

    def __init__(self, path: Path) -> None:
        """OSError if the file cannot be opened."""
        self._handler = logging.FileHandler(path, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def close(self) -> None:
        """Nothing is written any more."""
        self._handler.close()

    def write(
        self,
        wall_ms: int,
        principal: KafkaPrincipal,
        client_address: str,
        request: Message,
        response: Message | None,
        through: KafkaPrincipal | None = None,
    ) -> None:
        """`wall_ms`: since 1970; `principal`: the original one, `through`: of the broker that forwarded the request."""
        line = {
            "time": datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds"),
            "principal": str(principal),
            "address": client_address,
            **({} if through is None else {"through": str(through)}),
            "request": api_name(type(request)),
            "items": items_of(request),
            "outcome": outcome_of(response),
        }
        text = json.dumps(line, ensure_ascii=True)
        self._handler.emit(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))


def items_of(request: Message) -> int:
    """How many topics, resources, users or entries a request names at its top."""
    names: list[str] = [*type(request).__slots__]
    values: list[Any] = [getattr(request, name) for name in names]
    return sum(len(value) for value in values if isinstance(value, list))


def outcome_of(response: Message | None) -> dict[str, int] | str:
    """How often the response has which error; of one without a response that the connection was closed."""
    if response is None:
        return "no response"
    counts = Counter(Errors.of(code).name for code in _codes(response, depth=2))
    return dict(sorted(counts.items())) or {"NONE": 1}


def _codes(part: Message | Struct, depth: int) -> Iterator[int]:
    """Error codes, at the top and of its items."""
    names: list[str] = [*type(part).__slots__]
    if "error_code" in names:
        yield part.error_code  # type: ignore[union-attr]
    for name in names if depth else ():
        value: Any = getattr(part, name)
        if isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    yield from _codes(each, depth - 1)
