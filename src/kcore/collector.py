"""Python's garbage collector in programs that keep many objects and make few cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Objects. With CPython's 700, collections take half of the time of a request for 50,000 topics.
_COLLECTION_EVERY: Final = 100_000
# Of these. With CPython's 10 a look at a million objects would hold an event loop for a tenth of a second.
_SECOND_GENERATION_EVERY: Final = 2


@contextmanager
def rare_collections() -> Iterator[None]:
    """The collector looks seldom, and never at what is there already (the imports); afterwards it is as it was."""
    before = gc.get_threshold()
    is_first = gc.get_freeze_count() == 0  # Else the program has said itself what stays.
    if is_first:
        gc.freeze()
    gc.set_threshold(_COLLECTION_EVERY, _SECOND_GENERATION_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_first:
            gc.unfreeze()
