"""One step of a recorded story that kcore answers or logs otherwise, and where in it the two part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

RENOUNCED: Final = "renounced"  # Whether the controller gave up its leadership over the step.


@dataclass
class Difference:
    """`what`: "response", "records", "batches", "renounced", or the name of an exception."""

    story: str
    step: int
    api: str
    what: str
    expected: Any
    found: Any
    note: str | None = None

    def __str__(self) -> str:
        where = f"{self.story}/{self.step} {self.api} ({self.note}): {self.what}"
        parted = list(parting(self.expected, self.found))
        lines = [f"  at {path or 'all'}:\n    Kafka {left}\n    kcore {right}" for path, left, right in parted[:3]]
        return "\n".join([where, *lines])


def parting(left: Any, right: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places at which two values differ, and what each has there."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in {**left, **right}:
            yield from parting(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for k, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from parting(one, other, f"{path}[{k}]")
    elif left != right:
        yield path, left, right
