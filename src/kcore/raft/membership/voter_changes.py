"""Changes the voter set, one voter at a time (KIP-853): AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

Source: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler, KafkaRaftClient.
"""

from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

from kcore.constants import KRAFT_VERSION
from kcore.protocol_errors import Errors
from kcore.raft import leading
from kcore.raft.log.control_records import MOST_LISTENERS, why_no_voters
from kcore.raft.membership import pending_change
from kcore.raft.membership.replicas import NO_DIRECTORY, Address, Endpoints, ReplicaKey, Voter
from kcore.raft.membership.voters import MAX_KRAFT_VERSION, VoterSet
from kcore.raft.node_context import NodeContext
from kcore.raft.responses import handle_common, is_this_cluster, leader_only_error, voter_endpoints
from kcore.raft.states import Follower, PendingChange
from kcore.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    CurrentLeader,
    KRaftVersionFeature,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

WAITED: Final = "Request timed out waiting for"  # The beginning of Kafka's error messages.
CAUGHT_UP_MS: Final = 3_600_000  # A new voter's last fetch may be at most so old.
OwnRequest: TypeAlias = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


def _endpoints(listeners: Sequence[Listener]) -> Endpoints:
    few = listeners[: MOST_LISTENERS + 1]  # A voter with so many is refused.
    return {listener.name: Address(listener.host, listener.port) for listener in few}


def _listeners(node: NodeContext) -> list[Listener]:
    endpoints = node.config.endpoints
    return [Listener(name=name, host=address.host, port=address.port) for name, address in endpoints.items()]


# The leader's side.


def on_add_raft_voter_request(
    node: NodeContext, request: AddRaftVoterRequest, version: int, reply_to: Hashable, now_ms: int
) -> AddRaftVoterResponse | None:
    """Sends the new voter ApiVersions; its response starts the write of the new voter set.

    The request is answered when the voter set is committed, or, without `ack_when_committed`, when it is written.
    """
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    endpoints = _endpoints(request.listeners)
    problem = _may_change(node, request.cluster_id, key, "Add")
    if problem is None and node.config.listener not in endpoints:
        text = f"Add voter request didn't include the endpoint for the default listener {node.config.listener}"
        problem = (Errors.INVALID_REQUEST, text)
    problem = problem or _may_change_now(node, "adding", now_ms)
    if problem is None and key.id in node.voters.voters:
        text = f"The voter id for {_text(node, key)} is already part of the set of voters {_voters_text(node)}."
        problem = (Errors.DUPLICATE_VOTER, text)
    if problem is None and not node.connections.is_ready(key.id, now_ms):
        problem = (Errors.REQUEST_TIMED_OUT, f"New voter {_text(node, key)} is not ready to receive requests")
    if problem is not None:
        return AddRaftVoterResponse(error_code=problem[0], error_message=problem[1])
    deadline_ms = now_ms + node.config.request_timeout_ms
    node.leading.change = PendingChange(
        AddRaftVoterResponse, reply_to, key, endpoints, deadline_ms, request.ack_when_committed
    )
    api_versions = ApiVersionsRequest(client_software_name="kcore", client_software_version="1")
    node.connections.send(node.effects, key.id, endpoints[node.config.listener], api_versions, now_ms)
    return None


def on_remove_raft_voter_request(
    node: NodeContext, request: RemoveRaftVoterRequest, version: int, reply_to: Hashable, now_ms: int
) -> RemoveRaftVoterResponse | None:
    """Writes the voter set without the voter; the request is answered once the remaining voters have committed the set.

    A leader that removes itself leads until the commit.
    """
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    problem = _may_change(node, request.cluster_id, key, "Remove") or _may_change_now(node, "removing", now_ms)
    voters = None if problem else node.voters.without_voter(key)
    if problem is None and voters is None:
        text = f"Cannot remove voter {_text(node, key)} from the set of voters {_voters_text(node)}"
        problem = (Errors.VOTER_NOT_FOUND, text)
    if problem is not None or voters is None:
        return _removed(problem)
    change = PendingChange(RemoveRaftVoterResponse, reply_to, key, {}, now_ms + node.config.request_timeout_ms)
    node.leading.change = change
    write_voters(node, change, voters, now_ms)
    return None


def _removed(problem: tuple[Errors, str] | None) -> RemoveRaftVoterResponse:
    assert problem is not None
    return RemoveRaftVoterResponse(error_code=problem[0], error_message=problem[1])


def _text(node: NodeContext, key: ReplicaKey) -> str:
    """A replica key as the node's release prints it (ReplicaKey.toString)."""
    is_known = key.directory_id != NO_DIRECTORY
    if node.config.level == "3.9":
        directory = f"Optional[{key.directory_id}]" if is_known else "Optional.empty"
    else:
        directory = str(key.directory_id) if is_known else "<undefined>"
    return f"ReplicaKey(id={key.id}, directoryId={directory})"


def _voters_text(node: NodeContext) -> str:
    return f"[{', '.join(_text(node, key) for key in sorted(node.voters.keys))}]"


def _may_change(node: NodeContext, cluster_id: str | None, key: ReplicaKey, what: str) -> tuple[Errors, str] | None:
    """The error and the reason with which this node must refuse the request in any event; None if it may change."""
    if not is_this_cluster(node, cluster_id):
        text = f'The given id "{cluster_id}" doesn\'t match the cluster id "{node.cluster_id}"'
        return Errors.INCONSISTENT_CLUSTER_ID, text
    error = leader_only_error(node, node.epoch)
    if error is not Errors.NONE:
        return error, "this node does not lead"
    if key.id < 0 or key.directory_id == NO_DIRECTORY:
        return Errors.INVALID_REQUEST, f"{what} voter request didn't include a valid voter"
    return None


def _may_change_now(node: NodeContext, what: str, now_ms: int) -> tuple[Errors, str] | None:
    """The error and the reason why the voters cannot change now; None if they can.

    A change must wait until the change before it and a record of this epoch are committed. Otherwise two leaders could
    have voter sets without a common majority.
    """
    pending_change.poll(node, now_ms)
    if node.leading.change is not None:
        return Errors.REQUEST_TIMED_OUT, f"{WAITED} leader to handle previous voter change request"
    high_watermark = node.quorum.high_watermark
    if high_watermark is None:
        return Errors.REQUEST_TIMED_OUT, f"{WAITED} leader to establish HWM and fence previous voter changes"
    if node.voter_history.kraft_version < 1:
        return (
            Errors.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {what} voter because the {KRAFT_VERSION} feature is 0",
        )
    if not _are_committed(node, high_watermark):
        return Errors.REQUEST_TIMED_OUT, f"{WAITED} voters to commit the latest voter change"
    return None


def _are_committed(node: NodeContext, high_watermark: int) -> bool:
    offset = node.voter_history.last_voters_offset
    return offset is not None and offset < high_watermark


def on_api_versions_response(
    node: NodeContext, destination: int, request: ApiVersionsRequest, response: ApiVersionsResponse, now_ms: int
) -> bool:
    """Writes the new voter to the log if its response has the required kraft.version."""
    change = node.leading.change if node.leads else None
    if change is None or change.key.id != destination or change.last_offset is not None:
        return True
    if response.error_code != Errors.NONE:
        pending_change.finish(
            node, Errors.REQUEST_TIMED_OUT, f"{destination} answered with error {response.error_code}"
        )
        return False
    found = next((feature for feature in response.supported_features if feature.name == KRAFT_VERSION), None)
    version = node.voter_history.kraft_version
    if found is None or not found.min_version <= version <= found.max_version:
        pending_change.finish(node, Errors.INVALID_REQUEST, f"{destination} cannot do {KRAFT_VERSION} {version}")
        return True
    if not _is_caught_up(node, change.key, now_ms):
        pending_change.finish(node, Errors.REQUEST_TIMED_OUT, f"{destination} lags behind")
        return True
    voters = node.voters.with_voter(Voter(change.key, change.endpoints, found.min_version, found.max_version))
    assert voters is not None  # `on_add_raft_voter_request` has checked the id, and only one change runs at a time.
    if (why := why_no_voters(voters)) is not None:
        pending_change.finish(node, Errors.INVALID_REQUEST, why)
        return True
    write_voters(node, change, voters, now_ms)
    if not change.ack_when_committed:
        pending_change.answer(node, change, Errors.NONE, None)
    return True


def on_api_versions_lost(node: NodeContext, destination: int, request: ApiVersionsRequest, now_ms: int) -> None:
    """Refuses a new voter that cannot be reached."""
    change = node.leading.change if node.leads else None
    if change is not None and change.key.id == destination and change.last_offset is None:
        pending_change.finish(node, Errors.REQUEST_TIMED_OUT, f"{destination} does not answer")


def _is_caught_up(node: NodeContext, key: ReplicaKey, now_ms: int) -> bool:
    progress = node.leading.observers.get(key)
    return progress is not None and progress.last_caught_up_ms > 0 and progress.last_fetch_ms > now_ms - CAUGHT_UP_MS


def write_voters(node: NodeContext, change: PendingChange, voters: VoterSet, now_ms: int) -> None:
    """Writes the voter set, which is valid at once, before its commit."""
    assert node.voters.has_overlapping_majority(voters)
    change.last_offset = leading.append_control(node, [voters.to_record()], now_ms)


# UpdateRaftVoter.


def on_update_raft_voter_request(
    node: NodeContext, request: UpdateRaftVoterRequest, version: int, reply_to: Hashable, now_ms: int
) -> UpdateRaftVoterResponse:
    """Updates a voter's listeners and versions; answers at once, as the voter does not fetch before the answer."""
    error = _update(node, request, now_ms)
    if error is Errors.NONE:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        node.leading.count_fetch(key, now_ms)  # Like a fetch, the request proves that the voter follows this leader.
    state = node.quorum.state
    address = state.leader_endpoints.get(node.config.listener, Address("", 0))
    leader = CurrentLeader(leader_id=state.leader_id, leader_epoch=state.epoch, host=address.host, port=address.port)
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)


def _update(node: NodeContext, request: UpdateRaftVoterRequest, now_ms: int) -> Errors:
    if not is_this_cluster(node, request.cluster_id):
        return Errors.INCONSISTENT_CLUSTER_ID
    error = leader_only_error(node, request.current_leader_epoch)
    if error is not Errors.NONE:
        return error
    key, endpoints = ReplicaKey(request.voter_id, request.voter_directory_id), _endpoints(request.listeners)
    lowest = request.kraft_version_feature.min_supported_version
    highest = request.kraft_version_feature.max_supported_version
    if key.id < 0 or key.directory_id == NO_DIRECTORY or node.config.listener not in endpoints:
        return Errors.INVALID_REQUEST
    if not 0 <= lowest <= highest:
        return Errors.INVALID_REQUEST
    pending_change.poll(node, now_ms)
    if node.leading.change is not None or node.quorum.high_watermark is None:
        return Errors.REQUEST_TIMED_OUT
    version = node.voter_history.kraft_version
    voters = node.voters if version > 0 else node.leading.known_voters
    if voters is None or (version > 0 and not _are_committed(node, node.quorum.high_watermark)):
        return Errors.REQUEST_TIMED_OUT
    if not lowest <= version <= highest:
        return Errors.INVALID_REQUEST
    updated = voters.with_updated(Voter(key, endpoints, lowest, highest), any_directory=version == 0)
    if updated is None:
        return Errors.VOTER_NOT_FOUND
    if why_no_voters(updated) is not None:
        return Errors.INVALID_REQUEST
    if version == 0:
        node.leading.known_voters = updated  # The log has no voters until kraft.version is upgraded.
    elif updated != voters:  # Kafka's leader writes an unchanged voter set, too.
        leading.append_control(node, [updated.to_record()], now_ms)
    return Errors.NONE


# The follower's side.


def own_request(node: NodeContext, now_ms: int) -> OwnRequest | None:
    """The request about its own membership that a follower should send now instead of a Fetch; None for a Fetch.

    A voter sends UpdateRaftVoter if the log has other listeners or versions for it. At kraft.version 0, 4.x sends it
    once to each leader. An observer with `auto_join` first removes its former directory from the voters, then adds
    itself.
    """
    state = node.quorum.state
    is_dynamic = node.voter_history.kraft_version > 0
    if type(state) is not Follower or node.local.id < 0:
        return None
    if node.is_voter:
        known = node.voters.voters[node.local.id]
        is_due = known != node.local_voter if is_dynamic else not state.has_updated_leader
        return _update_request(node) if is_due and (is_dynamic or node.config.level != "3.9") else None
    if not (is_dynamic and node.config.can_become_voter and node.config.auto_join):
        return None
    former = node.voters.voters.get(node.local.id)
    if former is not None:
        return RemoveRaftVoterRequest(
            cluster_id=node.cluster_id, voter_id=former.key.id, voter_directory_id=former.key.directory_id
        )
    return AddRaftVoterRequest(
        cluster_id=node.cluster_id,
        timeout_ms=node.config.request_timeout_ms,
        voter_id=node.local.id,
        voter_directory_id=node.local.directory_id,
        listeners=_listeners(node),
        ack_when_committed=False,
    )


def _update_request(node: NodeContext) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=node.cluster_id,
        current_leader_epoch=node.epoch,
        voter_id=node.local.id,
        voter_directory_id=node.local.directory_id,
        listeners=_listeners(node),
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=MAX_KRAFT_VERSION),
    )


def on_update_raft_voter_response(
    node: NodeContext,
    destination: int,
    request: UpdateRaftVoterRequest,
    response: UpdateRaftVoterResponse,
    now_ms: int,
) -> bool:
    """Handles the response to UpdateRaftVoter: the leader has updated this voter, or refuses it."""
    leader = response.current_leader
    endpoints: Endpoints = {node.config.listener: Address(leader.host, leader.port)} if leader.host else {}
    if not endpoints and leader.leader_id >= 0:
        endpoints = voter_endpoints(node, leader.leader_id)
    handled = handle_common(node, response.error_code, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    if handled is not None:
        return handled
    state = node.quorum.state
    if type(state) is not Follower or response.error_code not in (Errors.NONE, Errors.UNSUPPORTED_VERSION):
        return False
    state.has_updated_leader = True
    state.fetch_deadline_ms = now_ms + node.config.fetch_timeout_ms
    state.has_fetched_from_leader = True
    return True


def on_add_raft_voter_response(
    node: NodeContext, destination: int, request: AddRaftVoterRequest, response: AddRaftVoterResponse, now_ms: int
) -> bool:
    """True if this observer need not back off; it sends AddRaftVoter again until the log has it as a voter."""
    return response.error_code in (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.DUPLICATE_VOTER)


def on_remove_raft_voter_response(
    node: NodeContext,
    destination: int,
    request: RemoveRaftVoterRequest,
    response: RemoveRaftVoterResponse,
    now_ms: int,
) -> bool:
    """True if this observer need not back off; it sends RemoveRaftVoter again until its former directory is removed."""
    return response.error_code in (Errors.NONE, Errors.REQUEST_TIMED_OUT, Errors.VOTER_NOT_FOUND)
