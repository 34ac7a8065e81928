"""Election rules that users write, compiled by Numba and applied in bulk."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kcore._ext.elections import election as kernels
from kcore._ext.elections.election import CALLS, MAY_LEAD
from kcore.errors import PolicyError
from kcore.extras import needs
from kcore.types import Int8s, Int16s, Int32s, Int64s


class ElectionPolicy:
    """A rule that picks a partition's new leader. `election_policy` makes it; `elect` takes it as a kind."""

    def __init__(self, function: Callable[..., Any]) -> None:
        # Numba takes half a second to import, so it is imported with the first policy.
        with needs("numba"):
            import numba
            from numba.core.dispatcher import Dispatcher

        if not callable(function):
            raise PolicyError(f"an election policy is a function, not {type(function).__name__}")
        try:
            self._compiled = function if isinstance(function, Dispatcher) else numba.njit(function)
        except TypeError as error:
            raise PolicyError(f"Numba takes no {type(function).__name__} as an election policy: {error}") from None

    def choose(self, columns: "kernels.Columns", brokers__b: Int64s, rows: Int32s) -> Int8s:
        """The slot that the policy picks for each of `rows` whose leader's state needs an election, -1 for none."""
        from numba.core.errors import NumbaError

        from kcore._ext.elections import policies

        replicas__ps, isr__pi, leader__p = columns[:3]
        choices = np.empty(len(rows), np.int8)
        arguments = (self._compiled, replicas__ps, isr__pi, leader__p, brokers__b, CALLS, MAY_LEAD, rows, choices)
        try:
            bad = policies.choose(*arguments)
        except NumbaError as error:
            raise PolicyError(f"Numba cannot compile the election policy: {error}") from error
        if bad >= 0:
            raise PolicyError(_complaint(int(choices[bad]), int(rows[bad]), replicas__ps))
        return choices


def _complaint(slot: int, row: int, replicas__ps: Int16s) -> str:
    count = int(np.count_nonzero(replicas__ps[row] >= 0))
    if 0 <= slot < count:
        return f"the policy chose slot {slot} of partition row {row}, whose replica is not online"
    return f"the policy chose a slot out of range for partition row {row}, which has {count} replicas"


def election_policy(function: Callable[..., Any]) -> ElectionPolicy:
    """Make an election rule from `function(replicas, in_sync, online) -> slot`; also a decorator.

    `replicas`: the partition's brokers as rows of the table's broker list, int16, in assignment order, -1 after the
    last; `in_sync` and `online`: bit masks, bit s for the replica in slot s. It returns the slot of the new leader,
    which must be online, or -1 to elect none. A leader from outside the ISR becomes the whole ISR, and the partition is
    marked as recovering. The function is an njit function, or plain Python that Numba can compile.

    `elect` raises PolicyError if the function cannot be compiled for these arguments or picks an invalid slot.
    MissingExtraError without Numba.
    """
    return ElectionPolicy(function)
