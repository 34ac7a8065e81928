"""Performs the work that is due in the node's state after every event. Source: KafkaRaftClient.poll.

Each `_poll_...` performs all due work of one state and returns the state's next deadline. The deadline is in the future
(KAFKA-17751), unless the state has changed; then `poll` calls the function of the new state.
"""

from collections.abc import Callable
from typing import Any

from kcore.raft import following, leading, quorum_epochs, votes
from kcore.raft.effects import LeaderChanged, Stopped
from kcore.raft.log import cleaning
from kcore.raft.membership import voter_changes
from kcore.raft.node_context import NodeContext
from kcore.raft.states import (
    NEVER_MS,
    NO_LEADER,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kcore.raft.transitions import Event

MAX_POLLS = 8  # Bound of the state changes in one event. An only voter needs four polls when it starts.


def poll(node: NodeContext, now_ms: int) -> None:
    """Performs all work that is due, and sets `next_deadline_ms`."""
    deadline_ms, quorum = NEVER_MS, node.quorum
    for _ in range(MAX_POLLS):
        if node.shutdown_deadline_ms is not None and (node.is_stopped or _finishes_shutdown(node, now_ms)):
            node.next_deadline_ms = None
            return
        state = quorum.state
        deadline_ms = _POLLS[type(state)](node, state, now_ms)
        if quorum.state is state:
            break
    if node.clean_deadline_ms <= now_ms:
        cleaning.poll(node, now_ms)
    clean_deadline_ms = node.clean_deadline_ms
    node.next_deadline_ms = deadline_ms if deadline_ms < clean_deadline_ms else clean_deadline_ms
    if node.announced_state is not quorum.state:
        _announce_leader(node)


def _announce_leader(node: NodeContext) -> None:
    """Emits LeaderChanged if the leader or the epoch differs from the last LeaderChanged.

    `fetching` emits it for this node's own leadership, once the high watermark is known. A resignation is announced at
    once (KAFKA-13104), and the leadership of that epoch never after its resignation (KAFKA-17333).
    """
    state = node.quorum.state
    kind = type(state)
    known = (NO_LEADER if kind is Resigned else state.leader_id, state.epoch)
    if kind is Leader and node.quorum.high_watermark is None:
        return
    node.announced_state = state
    if known != node.announced:
        node.announced = known
        if kind is not Leader:
            node.effects.append(LeaderChanged(*known))


# Shutdown.


def _finishes_shutdown(node: NodeContext, now_ms: int) -> bool:
    """Ends the shutdown if no other node needs this one, or at the time-out. Source: maybeCompleteShutdown."""
    assert node.shutdown_deadline_ms is not None
    state = node.quorum.state
    voters = node.voter_history.last_voters
    has_remote_leader = state.leader_id not in (NO_LEADER, node.local.id)
    is_needed = voters.is_voter(node.local) and not voters.is_only_voter(node.local) and not has_remote_leader
    if is_needed and now_ms < node.shutdown_deadline_ms:
        return False
    node.is_stopped = True
    node.effects.append(Stopped())
    return True


# The states.


def _poll_unattached(node: NodeContext, state: Unattached, now_ms: int) -> int:
    if node.is_voter:
        if node.shutdown_deadline_ms is not None:
            return node.shutdown_deadline_ms
        if state.election_deadline_ms <= now_ms:
            votes.seek_election(node, Event.ELECTION_TIMEOUT, now_ms)
            return now_ms
        return min(state.election_deadline_ms, _fetch_from_bootstrap(node, now_ms))
    return _fetch_from_bootstrap(node, now_ms)


def _poll_prospective(node: NodeContext, state: Prospective, now_ms: int) -> int:
    if node.shutdown_deadline_ms is not None:
        return min(node.shutdown_deadline_ms, votes.ask_for_votes(node, state, now_ms))
    if state.election_deadline_ms <= now_ms:
        votes.lose_pre_vote(node, state, now_ms)
        return now_ms
    return min(state.election_deadline_ms, votes.ask_for_votes(node, state, now_ms))


def _poll_candidate(node: NodeContext, state: Candidate, now_ms: int) -> int:
    if node.shutdown_deadline_ms is not None:  # A candidate that wins can resign, and so name its successors.
        return min(node.shutdown_deadline_ms, votes.ask_for_votes(node, state, now_ms))
    if not node.quorum.pre_vote:
        return _poll_candidate_without_pre_vote(node, state, now_ms)
    if state.election_deadline_ms <= now_ms:
        if node.config.endless_elections:
            votes.stand_for_election(node, Event.ELECTION_TIMEOUT, now_ms)
        else:
            votes.seek_election(node, Event.ELECTION_TIMEOUT, now_ms)
        return now_ms
    return min(state.election_deadline_ms, votes.ask_for_votes(node, state, now_ms))


def _poll_candidate_without_pre_vote(node: NodeContext, state: Candidate, now_ms: int) -> int:
    """3.9 starts the next epoch after the time-out or the lost election, plus a back-off."""
    if not node.may_stand:
        return votes.ask_for_votes(node, state, now_ms)
    if state.backoff_deadline_ms is None and state.election_deadline_ms <= now_ms:
        state.backoff_deadline_ms = now_ms + votes.backoff_ms(node, state.retries)
    if state.backoff_deadline_ms is None:
        return min(state.election_deadline_ms, votes.ask_for_votes(node, state, now_ms))
    if state.backoff_deadline_ms <= now_ms:
        votes.stand_for_election(node, Event.ELECTION_TIMEOUT, now_ms)
    return state.backoff_deadline_ms


def _poll_leader(node: NodeContext, state: Leader, now_ms: int) -> int:
    progress_deadline_ms = state.check_quorum_deadline_ms
    if node.shutdown_deadline_ms is not None or state.resign_requested:
        node.quorum.become_resigned(Event.RESIGN, state.successors(), now_ms)
        return now_ms
    if progress_deadline_ms <= now_ms:
        if node.config.endless_elections and node.may_stand:
            votes.stand_for_election(node, Event.PROGRESS_TIMEOUT, now_ms)
        else:
            node.quorum.become_resigned(Event.PROGRESS_TIMEOUT, state.successors(), now_ms)
        return now_ms
    deadline_ms = min(progress_deadline_ms, leading.poll(node, now_ms))
    if state.begin_epoch_deadline_ms <= now_ms:
        quorum_epochs.announce(node, state, now_ms)
    return min(deadline_ms, state.begin_epoch_deadline_ms)


def _poll_resigned(node: NodeContext, state: Resigned, now_ms: int) -> int:
    deadline_ms = quorum_epochs.resign_to_voters(node, state, now_ms)
    if node.shutdown_deadline_ms is not None:
        return min(deadline_ms, node.shutdown_deadline_ms)
    if state.election_deadline_ms <= now_ms:
        if node.quorum.pre_vote or not node.is_voter:
            # In the old epoch, this node would have to name itself as the leader, though it has resigned.
            node.quorum.become_unattached(state.epoch + 1, now_ms, Event.ELECTION_TIMEOUT)
        else:
            votes.stand_for_election(node, Event.ELECTION_TIMEOUT, now_ms)
        return now_ms
    return min(deadline_ms, state.election_deadline_ms)


def _poll_follower(node: NodeContext, state: Follower, now_ms: int) -> int:
    may_stand = node.may_stand
    if may_stand and state.fetch_deadline_ms <= now_ms:
        votes.seek_election(node, Event.FETCH_TIMEOUT, now_ms)
        return now_ms
    deadline_ms = state.fetch_deadline_ms if may_stand else NEVER_MS
    if state.update_voter_deadline_ms <= now_ms:
        request = voter_changes.own_request(node, now_ms)
        if request is not None and not node.connections.is_ready(state.leader_id, now_ms):
            return min(deadline_ms, node.connections.ready_ms(state.leader_id))
        state.update_voter_deadline_ms = now_ms + node.config.fetch_timeout_ms
        if request is not None:
            address = state.leader_endpoints[node.config.listener]
            node.connections.send(node.effects, state.leader_id, address, request, now_ms)
            return min(deadline_ms, node.connections.ready_ms(state.leader_id))
    return min(deadline_ms, state.update_voter_deadline_ms, _fetch_from_best_node(node, state, now_ms))


def _fetch_from_best_node(node: NodeContext, state: Follower, now_ms: int) -> int:
    """Fetches from the leader, or from a bootstrap server while the leader does not respond.

    Source: maybeSendFetchToBestNode.
    """
    connections, leader_id = node.connections, state.leader_id
    if not connections.are_all_ready:
        if connections.is_overdue(leader_id, now_ms):
            connections.reset(leader_id)
            return _fetch_from_bootstrap(node, now_ms)
        if connections.is_backing_off(leader_id, now_ms):
            return _fetch_from_bootstrap(node, now_ms)
        busy_until_ms = connections.busy_until_ms(now_ms)
        if busy_until_ms:
            return busy_until_ms
    request = following.fetch_request(node)
    if request is None:
        return NEVER_MS
    return connections.send(node.effects, leader_id, state.leader_endpoints[node.config.listener], request, now_ms)


def _fetch_from_bootstrap(node: NodeContext, now_ms: int) -> int:
    """Sends a Fetch to find the leader: every node's response names it. Source: maybeSendFetchToAnyBootstrap."""
    connections = node.connections
    busy_until_ms = 0 if connections.are_all_ready else connections.busy_until_ms(now_ms)
    if busy_until_ms:  # Two fetches in flight could return the same records twice.
        return busy_until_ms
    server = connections.ready_bootstrap_server(now_ms)
    if server is None:
        return connections.bootstrap_ready_ms()
    request = following.fetch_request(node)
    if request is None:
        return NEVER_MS
    return connections.send(node.effects, server[0], server[1], request, now_ms)


_POLLS: dict[type[Any], Callable[[NodeContext, Any, int], int]] = {
    Unattached: _poll_unattached,
    Prospective: _poll_prospective,
    Candidate: _poll_candidate,
    Leader: _poll_leader,
    Resigned: _poll_resigned,
    Follower: _poll_follower,
}
