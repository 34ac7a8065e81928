"""The actions of spec/AssignReplicasToDirs.tla in Python: the same state, the same guards, the same effects.

An action takes a state and its parameters, and returns the next state, or None if its guard is false. `ci/spec`
compares the graph of these actions with TLC's. Tests check the steps of the simulator's clusters with them.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

Assignment: TypeAlias = str  # A directory, or a value below.
Dirs: TypeAlias = frozenset[str]
NONE: Final = "none"  # No replica, no directory, no leader, no request.
UNASSIGNED: Final = "unassigned"
LOST: Final = "lost"
UNPUBLISHED: Final = "unpublished"
ANY: Final = "any"
THIS, OTHERS = "b", "o"  # The broker of the replica; all other brokers.
NOBODY: Final[Dirs] = frozenset()
ONLY_THIS: Final = frozenset({THIS})
MOVING: Final = ("copying", "asking", "accepted")


class Message(NamedTuple):
    """An AssignReplicasToDirs request in the network."""

    directory: str
    epoch: int


class State(NamedTuple):
    """The variables of the specification."""

    registered: Dirs
    controller_epoch: int
    fenced: bool
    assigned: Assignment
    isr: Dirs
    leader: str
    up: bool
    epoch: int
    online: Dirs
    failed: Dirs
    lost: Dirs
    spare: Dirs
    place: str
    future: str
    move: str
    creating: str
    feed: tuple[Assignment, ...]
    seen: Assignment
    want: str
    flying: str
    answer: str
    sent: str
    net: tuple[Message, ...]
    faults: int
    accepted: str
    shadow: str
    in_order: bool = True  # The constant InOrder.


Next: TypeAlias = State | None
Elected: TypeAlias = tuple[Dirs, str]  # The ISR and the leader.


def initial(dirs: Dirs, spares: Dirs, faults: int, *, in_order: bool) -> State:
    """Init: the topic is new, and the broker has not published it."""
    return State(
        **{"registered": dirs, "controller_epoch": 1, "fenced": False, "assigned": UNASSIGNED},
        **{"isr": frozenset({THIS, OTHERS}), "leader": THIS, "up": True, "epoch": 1},
        **{"online": dirs, "failed": NOBODY, "lost": NOBODY, "spare": spares},
        **{"place": NONE, "future": NONE, "move": NONE, "creating": NONE, "feed": (UNASSIGNED,), "seen": UNPUBLISHED},
        **{"want": NONE, "flying": NONE, "answer": NONE, "sent": NONE, "net": (), "faults": faults},
        **{"accepted": NONE, "shadow": NONE, "in_order": in_order},
    )


# The controller.


def is_online(directory: Assignment, directories: Dirs) -> bool:
    return directory in directories or directory == UNASSIGNED or (not directories and directory != LOST)


def feed_with(s: State, after: Assignment) -> tuple[Assignment, ...]:
    return (*s.feed, after) if s.epoch and after != s.assigned else s.feed


def without_this(s: State) -> Dirs:
    return s.isr if s.isr == ONLY_THIS else s.isr - {THIS}


def leaders_without_this(s: State) -> Dirs:
    return frozenset({OTHERS}) if s.leader == OTHERS else (without_this(s) & {OTHERS}) | {NONE}


def gone(s: State) -> set[Elected]:
    return {(without_this(s), each) for each in leaders_without_this(s)} | {(s.isr, NONE)}


def elect(s: State, members: Dirs, elected: str) -> Next:
    """The controller or the leader changes the leader or the ISR."""
    joins = THIS in members - s.isr
    if (members, elected) == (s.isr, s.leader) or not members & s.isr or elected not in members | {NONE}:
        return None
    if (THIS in members and s.assigned == NONE) or (joins and (s.fenced or s.leader != OTHERS)):
        return None
    if elected == THIS and (s.fenced or not is_online(s.assigned, s.registered)):
        return None
    return s._replace(isr=members, leader=elected)


def fence(s: State, members: Dirs, elected: str) -> Next:
    """The broker's session ends."""
    if s.fenced or (s.up and not s.faults) or (members, elected) not in gone(s):
        return None
    return s._replace(fenced=True, isr=members, leader=elected, faults=s.faults - s.up)


def unfence(s: State) -> Next:
    """The broker has caught up."""
    if not s.fenced or (s.epoch and s.seen == UNPUBLISHED):
        return None
    return s._replace(fenced=False)


def directories_offline(s: State, directories: Dirs, elected: str) -> Next:
    """The controller handles a heartbeat that lists failed directories."""
    if not directories or not directories <= s.registered - s.online:
        return None
    registered = s.registered - directories
    if s.assigned not in directories:
        return s._replace(registered=registered) if elected == s.leader else None
    if elected not in leaders_without_this(s):
        return None
    return s._replace(registered=registered, isr=without_this(s), leader=elected)


def is_current(s: State, k: int) -> bool:
    if s.flying == NONE or s.answer != NONE:
        return False
    return k == len(s.net) if s.in_order else s.net[k - 1] == Message(s.flying, s.epoch)


def net_after(s: State, k: int) -> tuple[Message, ...]:
    return s.net[k:] if s.in_order else s.net


def net_with(s: State, request: Message) -> tuple[Message, ...]:
    return s.net if not s.in_order and request in s.net else (*s.net, request)


def outcomes(s: State, directory: str) -> set[Elected]:
    if directory not in s.registered:
        return {(without_this(s), each) for each in leaders_without_this(s)}
    others = {each for each in s.isr if each != THIS or not s.fenced} if s.leader == NONE else set()
    return {(s.isr, each) for each in {s.leader, *others}}


def assign(s: State, k: int, members: Dirs, elected: str) -> Next:
    """The controller handles the k-th AssignReplicasToDirs request in the network."""
    if not 1 <= k <= len(s.net) or s.assigned == NONE:
        return None
    directory, epoch = s.net[k - 1]
    faults = s.faults if s.in_order or is_current(s, k) else s.faults - 1
    if faults < 0 or epoch != s.controller_epoch or (members, elected) not in outcomes(s, directory):
        return None
    return s._replace(
        assigned=directory,
        isr=members,
        leader=elected,
        feed=feed_with(s, directory),
        answer="accepted" if is_current(s, k) else s.answer,
        accepted=directory if is_current(s, k) else s.accepted,
        net=net_after(s, k),
        faults=faults,
    )


def refuse(s: State, k: int, error: str) -> Next:
    """The controller has no replica of the partition on this broker."""
    if s.assigned != NONE or not 1 <= k <= len(s.net) or not is_current(s, k):
        return None
    return s._replace(answer=error, net=net_after(s, k))


def remove_replica(s: State, elected: str) -> Next:
    """A reassignment removes the replica, or the topic is deleted."""
    if not s.faults or s.assigned == NONE or elected == THIS:
        return None
    return s._replace(
        assigned=NONE,
        isr=frozenset({OTHERS}),
        leader=elected,
        feed=feed_with(s, NONE),
        faults=s.faults - 1,
        shadow=NONE,
    )


def add_replica(s: State, directory: Assignment, members: Dirs, elected: str) -> Next:
    """A reassignment adds the replica, or the topic is created."""
    default = next(iter(s.registered)) if len(s.registered) == 1 else UNASSIGNED
    if not s.faults or s.assigned != NONE or directory != default or not members:
        return None
    if elected not in members | {NONE} or (THIS in members and s.fenced):
        return None
    feed = feed_with(s, directory)
    return s._replace(assigned=directory, isr=members, leader=elected, feed=feed, faults=s.faults - 1)


def register(s: State, members: Dirs, elected: str) -> Next:
    """The controller registers the new process."""
    if not s.up or s.epoch or (members, elected) not in gone(s):
        return None
    epoch = s.controller_epoch + 1
    return s._replace(
        **{"registered": s.online | s.failed, "controller_epoch": epoch, "epoch": epoch, "fenced": True},
        **{"isr": members, "leader": elected, "feed": (s.assigned,)},
    )


def register_former(s: State, directories: Dirs, members: Dirs, elected: str) -> Next:
    """The controller registers a process that has ended."""
    opened = s.online | s.failed
    if not s.faults or s.epoch or directories not in (opened, opened | s.lost) or (members, elected) not in gone(s):
        return None
    return s._replace(
        **{"registered": directories, "controller_epoch": s.controller_epoch + 1, "fenced": True},
        **{"isr": members, "leader": elected, "faults": s.faults - 1},
    )


def register_again(s: State) -> Next:
    """The controller handles a late copy of the process's registration."""
    if not s.faults or not s.epoch or s.registered == s.online | s.failed:
        return None
    return s._replace(registered=s.online | s.failed, faults=s.faults - 1)


# The broker's process and disks.


def crash(s: State) -> Next:
    """The process ends."""
    if not s.up or (not s.faults and s.online):
        return None
    return s._replace(
        **{"up": False, "epoch": 0, "faults": s.faults - bool(s.online), "feed": (), "seen": UNPUBLISHED, "want": NONE},
        **{"flying": NONE, "answer": NONE, "sent": NONE, "creating": NONE, "move": NONE, "accepted": NONE},
    )


def start(s: State, replaces: bool, new: Dirs) -> Next:
    """The process starts; an administrator may have replaced lost directories."""
    down = s.failed | s.lost
    if s.up or not new <= s.spare or not s.online | new or (new and not replaces):
        return None
    if replaces and (not down or len(new) > len(down)):
        return None
    is_known = s.place in down and s.assigned in (s.place, LOST)
    return s._replace(
        up=True,
        online=s.online | new,
        failed=NOBODY,
        lost=NOBODY if replaces else down,
        spare=s.spare - new,
        place=s.place if s.place in s.online else NONE,
        future=s.future if s.future in s.online else NONE,
        shadow=NONE if replaces else s.place if is_known else s.shadow,
    )


def directory_fails(s: State, directory: str) -> Next:
    """A disk operation fails in this directory."""
    if not s.faults or directory not in s.online:
        return None
    after = s._replace(
        online=s.online - {directory},
        failed=s.failed | {directory},
        faults=s.faults - 1,
        future=NONE if directory == s.future else s.future,
    )
    if s.move not in MOVING or directory not in (s.place, s.future):
        return after
    is_target = directory == s.future
    if s.move == "copying":
        want = NONE if s.want == s.future else s.want
    elif is_unsent(s) and s.seen == s.place:
        want = NONE
    else:
        want = s.place if is_target else LOST
    return after._replace(move=NONE if is_target else "left", want=want)


def is_unsent(s: State) -> bool:
    return s.want == s.future and s.flying == NONE and s.sent == NONE


# The broker compares its replica with the metadata.


class Replica(NamedTuple):
    """The replica after new metadata, and the assignment that the broker queues."""

    place: str
    future: str
    move: str
    creating: str
    queued: str


def kind(s: State, now: Assignment) -> str:
    return now if now == UNASSIGNED else "online" if now in s.online else "unknown"


def compared(s: State, now: Assignment) -> Replica:
    """The replica and the queued assignment, after the broker has published the assignment `now`."""
    kept = Replica(s.place, s.future, s.move, s.creating, NONE)
    found = s.future if s.move == NONE else NONE
    is_failed = s.place != NONE and s.place not in s.online
    is_unknown = kind(s, now) == "unknown"
    if now == NONE:
        return Replica(NONE, NONE, NONE, NONE, NONE)
    if is_failed and not is_unknown:
        return kept._replace(queued=s.place)
    is_withheld = is_failed or (is_unknown and bool(s.failed | s.lost))
    if s.creating != NONE or s.move in ("asking", "accepted") or is_withheld or (s.place == now and found == NONE):
        return kept
    if s.move == "copying":
        return kept._replace(queued=s.place) if now not in (s.place, s.future) else kept
    if s.place == NONE:
        return _without_current(s, now, found, kept)
    if found == NONE:
        return kept._replace(queued=s.place)
    if found == now:
        return kept._replace(move="accepted")
    return kept._replace(move="copying", queued=NONE if s.place == now else s.place)


def _without_current(s: State, now: Assignment, found: str, kept: Replica) -> Replica:
    if found == NONE:
        return kept._replace(creating=now if now in s.online else ANY)
    if found == now:
        return Replica(found, NONE, NONE, NONE, NONE)
    if now in s.online:
        return Replica(s.place, NONE, NONE, now, NONE)
    return Replica(found, NONE, NONE, NONE, found)


def is_asked(s: State) -> bool:
    return s.move == "asking" and s.want == s.future


def compare(s: State, now: Assignment) -> State:
    """The broker compares its replica with the assignment `now`, which it publishes."""
    place, future, move, creating, queued = compared(s, now)
    sent = NONE if now == NONE or s.sent == now else s.sent
    is_obsolete = now == NONE or (s.want == now and sent in (NONE, s.want) and not is_asked(s))
    want = queued if queued != NONE else NONE if is_obsolete else s.want
    return s._replace(seen=now, sent=sent, want=want, place=place, future=future, move=move, creating=creating)


def publish(s: State, k: int) -> Next:
    """The broker publishes the k-th change that it has not published yet."""
    if not s.up or not 1 <= k <= len(s.feed):
        return None
    return compare(s, s.feed[k - 1])._replace(feed=s.feed[k:])


def publish_other(s: State) -> Next:
    """The broker publishes another change of the partition."""
    if not s.faults or not s.up or s.seen == UNPUBLISHED:
        return None
    return compare(s, s.seen)._replace(faults=s.faults - 1)


def create(s: State, directory: str) -> Next:
    """The broker creates the replica."""
    if s.creating == NONE or directory not in s.online or s.creating not in (ANY, directory):
        return None
    return s._replace(place=directory, creating=NONE, want=directory if s.seen != directory else s.want)


def create_fails(s: State) -> Next:
    """The directory of the new replica has failed."""
    if s.creating == NONE or not s.failed or (s.creating != ANY and s.creating not in s.failed):
        return None
    return s._replace(creating=NONE)


# The broker's assignments.


def is_obsolete(s: State) -> bool:
    return s.seen == NONE or (s.seen == s.want and s.sent in (NONE, s.want) and not is_asked(s))


def send(s: State) -> Next:
    """The broker sends the queued assignment."""
    if not s.up or not s.epoch or s.want == NONE or s.flying != NONE or is_obsolete(s):
        return None
    net = net_with(s, Message(s.want, s.epoch))
    return s._replace(flying=s.want, sent=s.want, want=NONE, answer=NONE, net=net)


def drop(s: State) -> Next:
    """The broker drops a queued assignment that the metadata have."""
    if s.want == NONE or s.flying != NONE or not is_obsolete(s):
        return None
    return s._replace(want=NONE, move="copying" if is_asked(s) else s.move)


def take_answer(s: State) -> Next:
    """The broker gets the answer."""
    if s.answer == NONE:
        return None
    move = s.move
    if move == "asking" and s.flying == s.future and s.want != s.future:
        move = {"accepted": "accepted", "gone": "copying"}.get(s.answer, move)
    want = s.flying if s.answer == "refused" and s.want == NONE else s.want
    return s._replace(flying=NONE, answer=NONE, want=want, sent=NONE if s.answer == "gone" else s.sent, move=move)


def time_out(s: State) -> Next:
    """The request or its answer is lost or late."""
    if not s.faults or s.flying == NONE:
        return None
    want = s.flying if s.want == NONE else s.want
    return s._replace(flying=NONE, answer=NONE, want=want, faults=s.faults - 1)


# Moves.


def begin(s: State, target: str) -> Next:
    """An administrator moves the replica."""
    is_idle = s.seen not in (UNPUBLISHED, NONE) and s.move == s.creating == s.future == NONE
    if not s.faults or not s.up or not is_idle or s.failed | s.lost:
        return None
    if s.place not in s.online or target not in s.online - {s.place}:
        return None
    return s._replace(future=target, move="copying", faults=s.faults - 1)


def catch_up(s: State) -> Next:
    """The future replica has caught up: the broker asks the controller."""
    return s._replace(move="asking", want=s.future) if s.move == "copying" else None


def promote(s: State) -> Next:
    """The future replica becomes the current one."""
    if s.move != "accepted":
        return None
    want = s.future if s.seen not in (s.future, NONE) else s.want
    return s._replace(place=s.future, future=NONE, move=NONE, want=want)


def cancel(s: State) -> Next:
    """The administrator chooses the source again."""
    if not s.faults or s.move not in MOVING:
        return None
    want = s.want
    if s.move != "copying":
        want = NONE if is_unsent(s) and s.seen == s.place else s.place
    return s._replace(move=NONE, future=NONE, want=want, faults=s.faults - 1)


ACTIONS: Final[dict[str, Callable[..., Next]]] = {
    "".join(part.title() for part in each.__name__.split("_")): each
    for each in (
        *(elect, fence, unfence, directories_offline, assign, refuse, remove_replica, add_replica, register),
        *(register_former, register_again, crash, start, directory_fails, publish, publish_other),
        *(create, create_fails, send, drop, take_answer, time_out),
        *(begin, catch_up, promote, cancel),
    )
}
