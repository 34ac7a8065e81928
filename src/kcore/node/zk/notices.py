"""Notices: entries of the operator's log, which handlers yield as data and the server logs."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

# detail: logged only with --verbose. warning: the node skips something that an operator must repair.
Level: TypeAlias = Literal["detail", "info", "warning"]


class Notice:
    """An entry of the log; `str(notice)` is its line."""

    __slots__ = ()
    level: Level = "info"

    @abstractmethod
    def __str__(self) -> str: ...

    def details(self) -> Iterator[str]:
        """The lines for --verbose, one for each partition or topic."""
        yield from ()


@dataclass(frozen=True, slots=True)
class TextNotice(Notice):
    """A line of text without details."""

    text: str
    level: Level = "info"
    request: str = ""  # The API of the request that causes the line; the server bounds the rate of these lines.

    def __str__(self) -> str:
        return self.text
