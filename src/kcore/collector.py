"""Python's garbage collector in programs that keep many objects and make few cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Objects; a look at them takes a millisecond. With CPython's 700, collections take half of the time of a request
# for 50,000 topics.
_COLLECTION_EVERY: Final = 5_000
# Young collections: with more of them, a collection of the second generation would hold the event loop longer.
_SECOND_GENERATION_EVERY: Final = 1
# Second collections: after so many new objects a full collection is cheap beside the work with them. With CPython's 10
# it would come in the middle of a request for many topics, and traverse all objects of the request.
_THIRD_GENERATION_EVERY: Final = 2_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes collections rare and excludes existing objects (the imports); restores the settings afterwards."""
    before = gc.get_threshold()
    is_first = gc.get_freeze_count() == 0  # If False, the program has frozen objects itself.
    if is_first:
        gc.freeze()
    gc.set_threshold(_COLLECTION_EVERY, _SECOND_GENERATION_EVERY, _THIRD_GENERATION_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_first:
            gc.unfreeze()
