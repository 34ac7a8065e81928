"""A quorum of three nodes elects a leader, commits records, loses the leader, and commits more under the next one.

A RaftNode has no socket, clock or disk: each call is one event, and returns effects for its owner to perform. The owner
here is a Member, with a UDP socket and storage in memory, and one loop serves all members. A node repeats a request
that gets no response, so a datagram may be lost; records must be small enough for one.
"""

import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from select import select
from struct import Struct
from typing import Any, Final

from kcore.raft import (
    Address,
    Appended,
    Effect,
    ElectionState,
    Flush,
    LeaderChanged,
    MemoryLog,
    RaftConfig,
    RaftNode,
    ReplicaKey,
    Send,
    SendResponse,
    StoreElection,
    Voter,
)
from kcore.wire import Message, Uuid, decode_from, decode_records, encode, messages

HEADER: Final = Struct(">?hi")  # Whether the message is a response, its API key, and the request's correlation id.
DATAGRAM_BYTES: Final = 1 << 16
SINCE_1970_S: Final = time.time() - time.monotonic()
TICK_S: Final = 0.01  # Work that is due waits at most this long.
APIS: Final = {
    messages[f"{api}Request"].api_key: api for api in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch")
}


def now_ms() -> int:
    """Milliseconds since 1970, which never decrease."""
    return int((SINCE_1970_S + time.monotonic()) * 1000)


def bound_socket(address: tuple[str, int] = ("127.0.0.1", 0)) -> socket.socket:
    """A UDP socket; port 0 stands for any free port."""
    made = socket.socket(type=socket.SOCK_DGRAM)
    made.bind(address)
    return made


@dataclass
class Storage:
    """The data of a node that survives its loss: the log, and the epoch with the node's vote."""

    log: MemoryLog = field(default_factory=MemoryLog)
    election: ElectionState | None = None


class Member:
    """A running node: performs its effects, and passes messages and the time to it."""

    def __init__(self, config: RaftConfig, storage: Storage, endpoint: socket.socket) -> None:
        self.config, self.storage, self.endpoint = config, storage, endpoint
        self.node = RaftNode(config, storage.log)
        self._peers = [voter.endpoints[config.listener] for voter in config.voters]
        self._perform(self.node.start(storage.election, now_ms()))

    def receive(self) -> None:
        """Passes one message of another node to this one."""
        data, address = self.endpoint.recvfrom(DATAGRAM_BYTES)
        if address not in self._peers:
            return
        is_response, api_key, correlation_id = HEADER.unpack_from(data)
        kind = messages[APIS[api_key] + ("Response" if is_response else "Request")]
        message, _ = decode_from(kind, kind.versions.highest, data, HEADER.size)
        if is_response:
            self._perform(self.node.on_response(correlation_id, message, now_ms()))
        else:
            reply_to = address, correlation_id
            self._perform(self.node.on_request(message, kind.versions.highest, reply_to, now_ms()))

    def work(self) -> None:
        """Performs work that is due."""
        self._perform(self.node.on_timer(now_ms()))

    @property
    def may_append(self) -> bool:
        """Whether the node leads, and knows what is committed."""
        return self.node.leads and self.node.high_watermark is not None

    def append(self, records: Sequence[bytes]) -> int:
        """Appends records as the leader; returns the offset behind the last one."""
        outcome, effects = self.node.append(records, self.node.epoch, self.node.next_offset, now_ms())
        assert isinstance(outcome, Appended), f"node {self.config.node_id} does not lead"
        self._perform(effects)
        return outcome.last_offset + 1

    def committed(self) -> list[str]:
        """The committed records, without control records."""
        log = self.storage.log
        records = decode_records(log.read(log.start_offset, log.size_bytes, log.high_watermark))
        return [str(each.value, "utf-8") for each in records if each.value is not None and each.control is None]

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Performs effects, and those that follow from them, in order."""
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            match effect:
                case StoreElection(election=election):
                    self.storage.election = election  # Stored before any later effect, such as a vote that is sent.
                case Flush():
                    self.storage.log.flush()
                    waiting.extend(self.node.on_flushed(effect, now_ms()))
                case Send(address=address, correlation_id=correlation_id, request=request):
                    self._send(address, False, correlation_id, request)
                case SendResponse(reply_to=(address, int(correlation_id)), response=response):
                    self._send(address, True, correlation_id, response)
                case LeaderChanged(leader_id=leader_id, epoch=epoch) if leader_id == self.config.node_id:
                    print(f"node {leader_id} leads epoch {epoch}")

    def _send(self, address: Any, is_response: bool, correlation_id: int, message: Message) -> None:
        header = HEADER.pack(is_response, message.api_key, correlation_id)
        self.endpoint.sendto(header + encode(message, message.versions.highest), address)


def run_once(members: Sequence[Member]) -> None:
    """One turn of the loop: messages that are here or come within a tick, then work that is due."""
    by_socket = {each.endpoint: each for each in members}
    ready, _, _ = select(by_socket, [], [], TICK_S)
    for each in ready:
        by_socket[each].receive()
    for member in members:
        member.work()


def commit(members: Sequence[Member], *records: bytes) -> Member:
    """Appends records at the leader, and runs until all members have committed them; returns the leader.

    If another leader takes over before, the records are appended there too, and may be in the log twice.
    """
    while True:
        while not (leaders := [each for each in members if each.may_append]):
            run_once(members)
        leader = max(leaders, key=lambda each: each.node.epoch)
        epoch, end_offset = leader.node.epoch, leader.append(records)
        while leader.node.epoch == epoch:
            run_once(members)
            if all((each.node.high_watermark or 0) >= end_offset for each in members):
                return leader


def config_of(voter: Voter, voters: Sequence[Voter]) -> RaftConfig:
    node_id = voter.key.id
    return RaftConfig(
        cluster_id="example",
        node_id=node_id,
        directory_id=Uuid(bytes([node_id]) * 16),
        endpoints=voter.endpoints,
        jitter_ms=Random(node_id).randrange,
        voters=tuple(voters),
        election_timeout_ms=200,
        election_backoff_max_ms=200,
        fetch_timeout_ms=800,
    )


sockets = [bound_socket() for _ in range(3)]
voters = [Voter(ReplicaKey(i), {"CONTROLLER": Address(*each.getsockname())}) for i, each in enumerate(sockets, 1)]
members = [Member(config_of(voter, voters), Storage(), each) for voter, each in zip(voters, sockets, strict=True)]
leader = commit(members, b"first", b"second")

leader.endpoint.close()
print(f"node {leader.config.node_id} is lost")
commit([each for each in members if each is not leader], b"third")

storage = Storage(leader.storage.log.crash(), leader.storage.election)
again = Member(leader.config, storage, bound_socket(leader.config.endpoints["CONTROLLER"]))
members[members.index(leader)] = again
print(f"node {leader.config.node_id} is back")
commit(members, b"fourth")
for member in members:
    print(f"node {member.config.node_id} has committed {', '.join(member.committed())}")

# Prints:
# node ... leads epoch ...
# node ... is lost
# node ... leads epoch ...
# node ... is back
# node 1 has committed first, second, third, fourth
# node 2 has committed first, second, third, fourth
# node 3 has committed first, second, third, fourth
