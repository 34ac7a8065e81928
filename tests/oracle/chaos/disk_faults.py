"""Chooses the faults of a round of `disk_chaos`, by seed and number.

All that may cost data happens to one broker, the round's victim: kill -9, lost disks, replicas that move. Meanwhile the
active controller may be killed, and another broker may sleep until its session is over. So fewer than
min.insync.replicas disks of a partition are gone at any time, and no other broker's end was unclean, if all ISRs are
whole when a round begins.
"""

from random import Random
from typing import Final, NamedTuple

from oracle.chaos.disk_clients import KEYS, Key
from oracle.chaos.disk_cluster import BROKERS, DIRECTORIES, SESSION_S

KILLED: Final = "broker killed"
MOVED: Final = "broker killed in a move"
SWAPPED: Final = "empty disk at a restart"
CONTROLLER: Final = "controller killed"
PAUSED: Final = "broker paused"
FILE: Final = "directory a file"
FULL: Final = "disk full"
UNMOUNTED: Final = "disk unmounted"
NEED_MOUNTS: Final = (FULL, UNMOUNTED)
LOST: Final = (FILE, FULL, UNMOUNTED)
"""With these the broker goes on, if it can, until the disk is replaced, or is there again as it was."""
KINDS: Final = (KILLED, FILE, MOVED, FULL, SWAPPED, UNMOUNTED, CONTROLLER, PAUSED)
MOST_WAIT_S: Final = 1.5  # Between two faults.
MOST_MOVING_S: Final = 1.5


class Fault(NamedTuple):
    """One fault, `after_s` after the one before."""

    kind: str
    after_s: float
    broker_id: int  # Meaningless where a controller is killed.
    directory: int = 0  # The broker's lost directory.
    moves: tuple[Key, ...] = ()  # Replicas of the broker that are to move to the next directory, just before.
    lasts_s: float = 0.0  # A pause, beyond the session; or what the moves have time for.

    def __str__(self) -> str:
        who = "" if self.kind == CONTROLLER else f" {self.broker_id}"
        where = f", directory {self.directory + 1}" if self.kind in (*LOST, SWAPPED) else ""
        moves = f", {len(self.moves)} replicas moving" if self.moves else ""
        return f"{self.kind}{who}{where}{moves} after {self.after_s:.2f} s"


class Round(NamedTuple):
    """Faults in turn, and how what was lost is mended."""

    number: int
    victim: int
    faults: tuple[Fault, ...]
    is_replaced: bool  # A lost disk: by an empty one. Otherwise it comes back as it was.
    is_noticed: bool  # The mending waits until the broker has noticed.
    is_killed: bool  # For the mending, by kill -9; otherwise it is stopped by SIGTERM.

    def __str__(self) -> str:
        lost = any(each.kind in LOST for each in self.faults)
        then = f"; the disk {'is replaced by an empty one' if self.is_replaced else 'comes back'}" if lost else ""
        return "; ".join(map(str, self.faults)) + then


def kinds_of(*, mounted: bool) -> list[str]:
    """The kinds of faults that are possible; some need mounts."""
    return [each for each in KINDS if mounted or each not in NEED_MOUNTS]


def round_of(seed: int, number: int, *, mounted: bool = True, anybody: bool = False) -> Round:
    """The kinds in turn, one a round, with up to two faults around it that cost no more disk.

    `anybody`: kill -9 hits other brokers than the victim, too, of which the kill takes no disk.
    """
    dice, kinds = Random(f"{seed}/{number}"), kinds_of(mounted=mounted)
    victim = dice.choice(BROKERS)
    main = _fault(kinds[(seed + number) % len(kinds)], victim, dice)
    more = (KILLED, KILLED, CONTROLLER, *(() if main.kind == PAUSED else (PAUSED,)))
    others = [_fault(kind, victim, dice) for kind in dice.sample(more, dice.randrange(3))]
    if anybody:
        others = [
            each._replace(broker_id=dice.choice(BROKERS)) if each.kind == KILLED else each
            for each in (*others, _fault(KILLED, victim, dice))
        ]
    before = dice.randrange(len(others) + 1)
    faults = (*others[:before], main, *others[before:])
    return Round(number, victim, faults, *(dice.random() < share for share in (0.6, 0.6, 0.5)))


def _fault(kind: str, victim: int, dice: Random) -> Fault:
    after_s = dice.random() ** 2 * MOST_WAIT_S
    if kind == CONTROLLER:
        return Fault(kind, after_s, 0)
    if kind == PAUSED:
        other = dice.choice([each for each in BROKERS if each != victim])
        return Fault(kind, after_s, other, lasts_s=SESSION_S * (1 + dice.random()))
    is_moving = kind == MOVED or (kind in (*LOST, SWAPPED) and dice.random() < 0.3)
    moves = tuple(sorted(dice.sample(KEYS, dice.randint(1, 4)))) if is_moving else ()
    return Fault(kind, after_s, victim, dice.randrange(DIRECTORIES), moves, dice.random() ** 2 * MOST_MOVING_S)
