"""Builds requests for voter changes (KIP-853), with a test's own fields, and reads the results."""

from typing import Any

from kcore.raft.effects import SendResponse
from kcore.schema.raft_voters import (
    AddRaftVoterRequest,
    KRaftVersionFeature,
    Listener,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from kcore.types import Uuid
from raft.nodes import CLUSTER, LISTENER, address, begin_request, directory, of, started
from raft.replication import fetch_response, open_fetch


def listeners(node_id: int, name: str = LISTENER) -> list[Listener]:
    return [Listener(name=name, host=address(node_id).host, port=address(node_id).port)]


def add_request(node_id: int = 4, **changed: Any) -> AddRaftVoterRequest:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "timeout_ms": 1000,
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
        "listeners": listeners(node_id),
    }
    return AddRaftVoterRequest(**(values | changed))


def remove_request(node_id: int, directory_id: Uuid | None = None, cluster_id: str | None = None) -> Any:
    of_directory = directory(node_id) if directory_id is None else directory_id
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=node_id, voter_directory_id=of_directory)


def update_request(node_id: int = 2, epoch: int = 1, lowest: int = 0, highest: int = 1, **changed: Any) -> Any:
    feature = KRaftVersionFeature(min_supported_version=lowest, max_supported_version=highest)
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "current_leader_epoch": epoch,
        "voter_id": node_id,
        "voter_directory_id": directory(node_id),
        "listeners": listeners(node_id),
        "kraft_version_feature": feature,
    }
    return UpdateRaftVoterRequest(**(values | changed))


def ask(node: Any, request: Any, now_ms: int = 1000) -> list[Any]:
    return list(node.on_request(request, 0, "change", now_ms))


def change_answer(effects: list[Any]) -> Any:
    """The response, None if it is not answered yet."""
    answers = [effect.response for effect in of(SendResponse, effects) if effect.reply_to == "change"]
    return answers[0] if answers else None


def error(effects: list[Any]) -> int:
    return int(change_answer(effects).error_code)


def follows(**settings: Any) -> tuple[Any, list[Any]]:
    """Node 1, which follows node 2, and the effects as the fetch time-out has passed since, its fetches answered."""
    node, _ = started(**settings)
    fetch_send = open_fetch(node.on_request(begin_request(1, voter_directory=directory(1)), 1, "begin", 0))
    fetch_send = open_fetch(node.on_response(fetch_send.correlation_id, fetch_response(), 1000))
    return node, list(node.on_response(fetch_send.correlation_id, fetch_response(), 2000))
