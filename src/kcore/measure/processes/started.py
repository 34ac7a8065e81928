"""What runs for the time of a `with`: a process, or several."""

from abc import ABC, abstractmethod
from typing import Self


class Started(ABC):
    """Started at the beginning, closed at the end, also if the start itself fails."""

    @abstractmethod
    def start(self) -> None:
        """Returns when it serves; TargetError if it does not."""

    @abstractmethod
    def close(self) -> None:
        """Ends it, and removes what is left of it."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
