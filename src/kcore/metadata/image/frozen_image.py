"""Copies an image as it is at one moment, for writing a snapshot while the image continues to change.

Copying the columns of a million partitions takes a few milliseconds if their memory is allocated and touched. That
takes longer, so it is done beforehand, in steps.
"""

from collections.abc import Generator, Iterator
from typing import Final

import numpy as np

from kcore.errors import TableError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.arrays import Array

_STEP_BYTES: Final = 8 << 20
_PAGE: Final = 4096


class Freezer:
    """Memory for the columns of an image, and the image copied into it."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._room: dict[str, Array] = {}

    def prepare(self) -> Iterator[None]:
        """Allocate and touch the memory, a step at a time; the image may change meanwhile."""
        for name, array in self._image.table.columns_in_use().items():
            room = np.empty((len(array) + len(array) // 16 + 64, *array.shape[1:]), array.dtype)
            flat = room.reshape(-1).view(np.uint8)
            for begin in range(0, len(flat), _STEP_BYTES):
                flat[begin : begin + _STEP_BYTES : _PAGE] = 0
                yield
            self._room[name] = room

    def freeze(self, offset: int | None = None) -> Generator[None, None, ClusterImage]:
        """Copy the image as it is at the first step, or as it was before the batch at `offset`, by its journal.

        The later records are reverted in steps. The copy is read-only. TableError if the journal does not reach back
        that far.
        """
        image = self._image
        twin = image.copy(self._room)
        if offset is None:
            return twin
        if image.journal is not None:  # Also at `end_offset`: a partly applied batch may begin there.
            yield from image.journal.revert_copy(twin, offset)
        elif offset < image.end_offset:
            raise TableError(f"without a journal, an image at {image.end_offset} cannot go back to {offset}")
        twin.end_offset = min(twin.end_offset, offset)
        return twin
