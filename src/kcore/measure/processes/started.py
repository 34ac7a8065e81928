"""The base class of processes that run during a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """Starts its processes at the beginning of a `with`, and closes them at its end or if the start fails."""

    @abstractmethod
    def start(self) -> None:
        """Returns when the processes serve; TargetError if they do not."""

    @abstractmethod
    def close(self) -> None:
        """Ends the processes and removes their files."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
