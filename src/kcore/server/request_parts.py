"""Splits requests of many entries into parts, and joins the parts' responses.

A server handles one part in a turn of the event loop, so that a request of a hundred thousand entries delays no other
client. Kafka handles a request in one of many threads instead.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from kcore import schema
from kcore.net.limits.work_in_parts import next_turn
from kcore.schema.acls import CreateAclsRequest, DeleteAclsRequest
from kcore.schema.configs import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kcore.schema.describe_quorum import DescribeQuorumRequest
from kcore.schema.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kcore.schema.structure import Message, Struct
from kcore.schema.topics import CreateTopicsRequest, DeleteTopicsRequest
from kcore.server.security.rights import Checked

M = TypeVar("M", bound=Message)
ENTRIES_AT_ONCE: Final = 250  # Entries of one part, with those that they contain: an entry takes 2 to 15 us.
Path: TypeAlias = Sequence[str]  # The names of lists, each in the elements of the list before it.


class Lists(NamedTuple):
    """Lists of a request, and the lists of the results in its response."""

    requested: Path
    answered: Path


class Splitting(NamedTuple):
    """The lists of a request whose entries a server decides one by one."""

    lists: Sequence[Lists]
    are_decided_together: bool = False  # The rights are checked in parts, and the allowed entries decided together.
    share: int = 1  # A part has this fraction of ENTRIES_AT_ONCE.

    @property
    def at_once(self) -> int:
        """The entries of one part."""
        return max(ENTRIES_AT_ONCE // self.share, 1)


def _one_by_one(*paths: tuple[str, str]) -> Splitting:
    """`paths`: the names of lists with dots between them, of the request and of the response."""
    return Splitting([Lists(*(path.split(".") for path in each)) for each in paths])


def _together(*paths: tuple[str, str]) -> Splitting:
    return _one_by_one(*paths)._replace(are_decided_together=True)


_TOPICS: Final = ("topics.partitions", "topics.partitions")
SPLITTINGS: Final[Mapping[type[Message], Splitting]] = {
    schema.ProduceRequest: _together(("topic_data.partition_data", "responses.partition_responses")),
    schema.DeleteRecordsRequest: _together(_TOPICS),
    schema.WriteTxnMarkersRequest: _one_by_one(("markers.topics.partition_indexes", "markers.topics.partitions")),
    schema.ListOffsetsRequest: _one_by_one(_TOPICS),
    schema.OffsetForLeaderEpochRequest: _one_by_one(_TOPICS),
    schema.OffsetCommitRequest: _one_by_one(_TOPICS),
    schema.TxnOffsetCommitRequest: _one_by_one(_TOPICS),
    schema.DescribeProducersRequest: _one_by_one(("topics.partition_indexes", "topics.partitions")),
    schema.AlterReplicaLogDirsRequest: _one_by_one(("dirs.topics.partitions", "results.partitions")),
    schema.FindCoordinatorRequest: _one_by_one(("coordinator_keys", "coordinators")),
    schema.OffsetFetchRequest: _one_by_one(("groups", "groups"), ("topics.partition_indexes", "topics.partitions")),
    DescribeQuorumRequest: _one_by_one(_TOPICS),
    schema.DescribeGroupsRequest: _one_by_one(("groups", "groups")),
    schema.DeleteGroupsRequest: _one_by_one(("groups_names", "results")),
    schema.ConsumerGroupDescribeRequest: _one_by_one(("group_ids", "groups")),
    schema.DescribeTransactionsRequest: _one_by_one(("transactional_ids", "transaction_states")),
    schema.AddPartitionsToTxnRequest: _one_by_one(
        ("transactions.topics.partitions", "results_by_transaction.topic_results.results_by_partition"),
        ("v3_and_below_topics.partitions", "results_by_topic_v3_and_below.results_by_partition"),
    ),
    schema.AlterClientQuotasRequest: _together(("entries", "entries")),
    schema.AlterUserScramCredentialsRequest: _together(("deletions", "results"), ("upsertions", "results")),
    schema.DescribeUserScramCredentialsRequest: _together(("users", "results")),
    CreateAclsRequest: _together(("creations", "results")),
    DeleteAclsRequest: _together(("filters", "filter_results")),
    # A resource has dozens of settings.
    DescribeConfigsRequest: _together(("resources", "results"))._replace(share=25),
    AlterConfigsRequest: _together(("resources", "responses")),
    IncrementalAlterConfigsRequest: _together(("resources", "responses")),
    CreateTopicsRequest: _together(("topics", "topics")),
    CreatePartitionsRequest: _together(("topics", "results")),
    DeleteTopicsRequest: _together(("topics", "responses"), ("topic_names", "responses")),
    ElectLeadersRequest: _together(("topic_partitions.partitions", "replica_election_results.partition_result")),
    AlterPartitionReassignmentsRequest: _together(("topics.partitions", "responses.partitions")),
    ListPartitionReassignmentsRequest: _together(("topics.partition_indexes", "topics.partitions")),
}


def splitting_of(request: Message) -> Splitting | None:
    """The splitting of a request that has too many entries for one part; None for other requests."""
    splitting = SPLITTINGS.get(type(request))
    if splitting is None:
        return None
    at_once = splitting.at_once
    weight = sum(_weight(request, each.requested, at_once + 1) - 1 for each in splitting.lists)
    return splitting if weight > at_once else None


def parts_of(request: M, lists: Sequence[Lists], most: int) -> Iterator[M]:
    """Copies of the request that have `most` of the entries of its lists each, in order."""
    without = copy(request)
    filled = [each.requested for each in lists if getattr(request, each.requested[0])]
    for name, *_ in filled:
        setattr(without, name, [])
    for name, *inside in filled:
        for values, _ in _runs(getattr(request, name), inside, most):
            part = copy(without)
            setattr(part, name, values)
            yield part


def _weight(entry: Any, inside: Path, most: int) -> int:
    """The number of the entry and of its own entries; not counted beyond `most`."""
    if not inside:
        return 1
    values = getattr(entry, inside[0]) or ()
    total = 1
    if len(inside) == 1:
        return total + len(values)
    for each in values:
        total += _weight(each, inside[1:], most)
        if total > most:
            break
    return total


def _runs(entries: Sequence[Any], inside: Path, most: int) -> Iterator[tuple[list[Any], int]]:
    """The entries in lists, each with its weight; entries that are heavier than `most` are split."""
    if not inside:
        for begin in range(0, len(entries), most):
            values = [*entries[begin : begin + most]]
            yield values, len(values)
        return
    run: list[Any] = []
    total = 0
    for entry in entries:
        for piece, weight in _pieces(entry, inside, most):
            if run and total + weight > most:
                yield run, total
                run, total = [], 0
            run.append(piece)
            total += weight
    yield run, total


def _pieces(entry: Any, inside: Path, most: int) -> Iterator[tuple[Any, int]]:
    weight = _weight(entry, inside, most)
    if weight <= most:
        yield entry, weight
        return
    for values, total in _runs(getattr(entry, inside[0]), inside[1:], max(most - 1, 1)):
        piece = copy(entry)
        setattr(piece, inside[0], values)
        yield piece, 1 + total


def add_part(whole: Message | Struct, part: Message | Struct, path: Path) -> None:
    """Appends the lists at `path` of the next part to those of the parts before it.

    An entry that was split becomes one entry again.
    """
    name, inside = path[0], path[1:]
    before, more = getattr(whole, name), getattr(part, name)
    if not before:
        setattr(whole, name, more)
    elif inside and more and _are_of_one_entry(before[-1], more[0], inside[0]):
        add_part(before[-1], more[0], inside)
        before.extend(more[1:])
    else:
        before.extend(more or ())


def _are_of_one_entry(before: Struct, after: Struct, but: str) -> bool:
    names = (each.name for each in before.__fields__ if each.name != but)
    return all(getattr(before, name) == getattr(after, name) for name in names)


def add_response(whole: Message | None, part: Message, splitting: Splitting) -> Message:
    """The response to the parts before, if there are any, with the results of the next part."""
    if whole is None:
        return part
    for path in {tuple(each.answered) for each in splitting.lists}:
        add_part(whole, part, path)
    return whole


async def in_turns(request: M) -> AsyncIterator[M]:
    """The parts of a request, each in another turn of the event loop; the request itself if it is small."""
    splitting = splitting_of(request)
    if splitting is None:
        yield request
        return
    for number, part in enumerate(parts_of(request, splitting.lists, splitting.at_once)):
        if number:
            await next_turn()
        yield part


async def answered_in_parts(request: M, answer: Callable[[M], Awaitable[Message | None]]) -> Message | None:
    """The response to a request whose parts `answer` answers, one in a turn; None if a part has no response."""
    splitting = splitting_of(request)
    if splitting is None:
        return await answer(request)
    whole: Message | None = None
    async for part in in_turns(request):
        answered = await answer(part)
        if answered is None:
            return None
        whole = add_response(whole, answered, splitting)
    return whole


async def checked_in_parts(request: M, check: Callable[[M], Checked | Message]) -> Checked | Message:
    """As `check` of the whole request; `check` gets one part in a turn, and may change it."""
    splitting = splitting_of(request)
    if splitting is None:
        return check(request)
    kept: Message | None = None
    refused: Message | None = None
    completes = []
    async for part in in_turns(request):
        checked = check(part)
        if not isinstance(checked, Checked):
            refused = add_response(refused, checked, splitting)
            continue
        completes.append(checked.complete)
        if kept is None and not checked.is_empty:
            kept = checked.request
        elif kept is not None and not checked.is_empty:
            for each in splitting.lists:
                add_part(kept, checked.request, each.requested[:1])
    if refused is not None and not completes:
        return refused

    def complete(response: Any) -> None:
        for each in completes:
            each(response)
        if refused is not None:
            add_response(response, refused, splitting)

    return Checked(request if kept is None else kept, kept is None, complete)
