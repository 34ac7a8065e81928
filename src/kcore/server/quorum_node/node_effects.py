"""Performs the effects of a raft node that concern its disk, its log file and other nodes."""

import logging
from typing import Final

from kcore.net.limits.bounded_log import BoundedLog
from kcore.raft.effects import Flush, LeaderChanged, Notice, Send, StoreElection
from kcore.server.quorum_node.elections import Elections
from kcore.server.quorum_node.log_flusher import LogFlusher
from kcore.server.quorum_node.peers import QuorumPeers

logger = logging.getLogger(__name__)


class NodeEffects:
    """Stores elections, sends requests, starts flushes and writes lines about the quorum."""

    def __init__(self, elections: Elections, peers: QuorumPeers, flusher: LogFlusher) -> None:
        self.elections: Final = elections
        self._peers, self._flusher = peers, flusher
        self._log = BoundedLog(logger)  # Bounded: without super users any client can request votes.

    def perform(self, effect: Send | Flush | StoreElection | Notice) -> None:
        """Performs one effect."""
        match effect:
            case Send():
                self._peers.send(effect)
            case Flush():
                self._flusher.request(effect)
            case StoreElection(election, kraft_version):
                self.elections.write(election, kraft_version)
                leader = "unknown" if election.leader_id < 0 else election.leader_id
                voted = "nobody" if election.voted is None else election.voted.id
                self._log.info("epoch %s is stored: leader %s, voted for %s", election.epoch, leader, voted)
            case Notice(text):
                self._log.warning("%s", text)

    def log_leader(self, effect: LeaderChanged) -> None:
        """Writes a line about the new leader."""
        leader = effect.leader_id if effect.leader_id >= 0 else "unknown"
        self._log.info("epoch %s: the leader is %s", effect.epoch, leader)

    async def close(self) -> None:
        """Closes the connections, and waits until the requested flushes have ended."""
        self._peers.close()
        await self._flusher.close()
