"""Python's garbage collector in programs that keep many objects and make few cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Objects; a look at them takes a millisecond. With CPython's 700, collections take half of the time of a request
# for 50,000 topics.
_COLLECTION_EVERY: Final = 5_000
# Of these: with more, those looked at a second time would hold an event loop for as much longer.
_SECOND_GENERATION_EVERY: Final = 1
# Of these: so many objects have come that a look at all takes little beside the work with them. With CPython's 10 it
# would come in the middle of a request for many topics, and find all that the request has made so far.
_THIRD_GENERATION_EVERY: Final = 2_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """The collector looks seldom, and never at what is there already (the imports); afterwards it is as it was."""
    before = gc.get_threshold()
    is_first = gc.get_freeze_count() == 0  # Else the program has said itself what stays.
    if is_first:
        gc.freeze()
    gc.set_threshold(_COLLECTION_EVERY, _SECOND_GENERATION_EVERY, _THIRD_GENERATION_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_first:
            gc.unfreeze()
