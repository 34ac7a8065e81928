"""The base of one or several processes that run for the time of a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """A `with` starts it at the beginning and closes it at the end, also if the start itself fails."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it serves; TargetError if it does not."""

    @abstractmethod
    def close(self) -> None:
        """Ends the process and removes its files."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
