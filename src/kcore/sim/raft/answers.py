"""Classifies answers by kind, for the coverage."""

from collections.abc import Callable
from typing import Any, Final

from kcore.protocol_errors import Errors
from kcore.schema.fetch import FetchResponse
from kcore.schema.fetch_snapshot import FetchSnapshotResponse
from kcore.schema.raft_votes import BeginQuorumEpochResponse, EndQuorumEpochResponse, VoteResponse
from kcore.schema.structure import Message

Kind = tuple[str, int, str]  # The message's name, its error code, and a word for its content.


def kind_of_answer(response: Any) -> Kind:
    """The kind of an answer."""
    describe = _DESCRIBE.get(type(response))
    return describe(response) if describe is not None else (type(response).__name__, int(response.error_code), "")


def name_of(kind: Kind) -> str:
    """The kind as one text, such as "VoteResponse granted"."""
    name, error_code, what = kind
    return " ".join(part for part in (name, Errors(error_code).name if error_code else "", what) if part)


def _fetch(response: FetchResponse) -> Kind:
    if response.error_code or not response.responses or not response.responses[0].partitions:
        return "FetchResponse", response.error_code, "for the whole request"
    data = response.responses[0].partitions[0]
    if data.error_code:
        return "FetchResponse", data.error_code, ""
    if data.diverging_epoch.epoch >= 0:
        return "FetchResponse", 0, "diverging"
    if data.snapshot_id.epoch >= 0:
        return "FetchResponse", 0, "snapshot"
    return "FetchResponse", 0, "records" if data.records else "nothing new"


def _fetch_snapshot(response: FetchSnapshotResponse) -> Kind:
    if response.error_code or not response.topics:
        return "FetchSnapshotResponse", response.error_code, "for the whole request"
    return "FetchSnapshotResponse", response.topics[0].partitions[0].error_code, ""


def _vote(response: VoteResponse) -> Kind:
    if response.error_code or not response.topics:
        return "VoteResponse", response.error_code, "for the whole request"
    data = response.topics[0].partitions[0]
    return "VoteResponse", data.error_code, "granted" if data.vote_granted else "refused"


def _epoch(response: Any) -> Kind:
    if response.error_code or not response.topics:
        return type(response).__name__, response.error_code, "for the whole request"
    return type(response).__name__, response.topics[0].partitions[0].error_code, ""


_DESCRIBE: Final[dict[type[Message], Callable[[Any], Kind]]] = {
    FetchResponse: _fetch,
    FetchSnapshotResponse: _fetch_snapshot,
    VoteResponse: _vote,
    BeginQuorumEpochResponse: _epoch,
    EndQuorumEpochResponse: _epoch,
}
