"""Runs a user's election rule over many partitions. Importing this module imports Numba."""

import numba
import numpy as np
import numpy.typing as npt
from numba.core.dispatcher import Dispatcher


@numba.njit(nogil=True)
def choose(
    policy: Dispatcher,
    replicas__ps: npt.NDArray[np.int16],
    isr__pi: npt.NDArray[np.int16],
    leader__p: npt.NDArray[np.int16],
    brokers__b: npt.NDArray[np.int64],
    calls: int,
    may_lead: int,
    rows__r: npt.NDArray[np.int32],
    choices__r: npt.NDArray[np.int8],
) -> int:
    """Call the policy for each partition of `rows__r` whose leader has a flag of `calls` in `brokers__b`.

    Entry 0 of `brokers__b` has the flags for partitions without a leader. Writes to `choices__r` the slot of the chosen
    replica, which is its place in the partition's list; -1 for none. Returns -1, or the index in `rows__r` of the first
    partition for which the policy's answer is neither -1 nor the slot of an online replica.
    """
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
        if slot < -1 or slot >= slots or (slot >= 0 and not (online >> slot) & 1):
            choices__r[r] = slot if 0 <= slot < slots else -2
            return r
        choices__r[r] = slot
    return -1
