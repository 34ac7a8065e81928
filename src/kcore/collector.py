"""Settings of Python's garbage collector for programs that keep many objects and make few cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# New objects until a young collection. One of the second generation then takes a fifth of a millisecond, during which
# all requests wait. Collections of fewer objects come more often, and take the same time together.
_COLLECTION_EVERY: Final = 1_000
# Young collections until one of the second generation. With a larger number, each would hold the event loop longer.
_SECOND_GENERATION_EVERY: Final = 1
# Second-generation collections until a full one. Its time is then small compared with the work on the new objects.
# With CPython's 10 a full collection would run during a request for many topics, and traverse all its objects.
_THIRD_GENERATION_EVERY: Final = 10_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes collections rare and excludes existing objects (the imports); restores the settings afterwards."""
    before = gc.get_threshold()
    is_first = gc.get_freeze_count() == 0  # False if the program itself has frozen objects: they stay frozen.
    if is_first:
        gc.freeze()
    gc.set_threshold(_COLLECTION_EVERY, _SECOND_GENERATION_EVERY, _THIRD_GENERATION_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_first:
            gc.unfreeze()
