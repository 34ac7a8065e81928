"""Finds state that stays although it was removed while a node was away: a user, a token, an ACL, a quota, a setting.

A node keeps a copy of what others decide: dicts, indexes, settings in force. A record or a notification updates the
copy one entry at a time. After a lost session, a loaded snapshot or a resignation nobody names what is gone, and a copy
that only adds keeps it: a removed user still logs in.

To apply it to a new copy, write a `Kind`: how an entry is put, how it is removed, and whether the copy has it. To apply
it to a new absence, write a function that takes the removal and performs it unseen. Every kind goes through every
absence, and each has a second entry that must stay.
"""

from collections.abc import Callable
from typing import NamedTuple

KEPT, GONE = "kept", "gone"


class Kind(NamedTuple):
    """Entries of one kind, by name."""

    put: Callable[[str], None]
    remove: Callable[[str], None]
    has: Callable[[str], bool]


def check_removed_while_away(kind: Kind, sees: Callable[[], None], away: Callable[[Callable[[], None]], None]) -> None:
    """`sees` lets the copy see what was put; `away` performs the removal while the copy does not look, and returns."""
    for name in (KEPT, GONE):
        assert not kind.has(name), "it is not there yet"
        kind.put(name)
    sees()
    assert kind.has(KEPT) and kind.has(GONE)
    away(lambda: kind.remove(GONE))
    assert not kind.has(GONE), "it was removed"
    assert kind.has(KEPT), "nothing else was"
