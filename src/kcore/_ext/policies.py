"""A user's election rule over many partitions. Importing this imports Numba."""

from collections.abc import Callable
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from kcore.errors import PolicyError
from kcore.types import Int8s, Int16s, Int32s, Int64s

NONE_BAD = -1


def compiled(function: Callable[..., Any]) -> Any:
    """The function as Numba's, compiled when first called."""
    if isinstance(function, Dispatcher):
        return function
    if not callable(function):
        raise PolicyError(f"an election policy is a function, not {type(function).__name__}")
    return numba.njit(function)


def choose(
    policy: Any,
    replicas__ps: Int16s,
    isr__pi: Int16s,
    leader__p: Int16s,
    brokers__b: Int64s,
    calls: int,
    may_lead: int,
    rows__r: Int32s,
    choices__r: Int8s,
) -> int:
    """Ask the policy for each candidate; gives the first one where its answer will not do, or -1."""
    try:
        return int(_choose(policy, replicas__ps, isr__pi, leader__p, brokers__b, calls, may_lead, rows__r, choices__r))
    except NumbaError as error:
        raise PolicyError(f"Numba cannot compile the election policy: {error}") from error


@numba.njit(nogil=True)
def _choose(
    policy: Any,
    replicas__ps: Int16s,
    isr__pi: Int16s,
    leader__p: Int16s,
    brokers__b: Int64s,
    calls: int,
    may_lead: int,
    rows__r: Int32s,
    choices__r: Int8s,
) -> int:
    slots = replicas__ps.shape[1]
    for r in range(len(rows__r)):
        p = rows__r[r]
        choices__r[r] = -1
        if brokers__b[leader__p[p] + 1] & calls == 0:
            continue
        in_sync = 0
        online = 0
        for s in range(slots):
            replica = replicas__ps[p, s]
            online |= ((brokers__b[replica + 1] & may_lead) != 0) << s
            for i in range(isr__pi.shape[1]):
                in_sync |= (replica >= 0 and replica == isr__pi[p, i]) << s
        slot = policy(replicas__ps[p], in_sync, online)
        if slot == -1:
            continue
        if slot < 0 or slot >= slots or not (online >> slot) & 1:
            choices__r[r] = slot if 0 <= slot < slots else -2
            return r
        choices__r[r] = slot
    return NONE_BAD
