"""Requests of many entries are handled in parts, and the answer is that of the whole request: no times."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

import pytest

from broker.cluster import led
from hostile.largest import Large, largest
from hostile.servers import Target
from kcore.broker.replicas.outputs import SendInSteps, SendResponse
from kcore.net.request_context import ClientSession, RequestContext
from kcore.net.versions import response_of
from kcore.schema.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
)
from kcore.schema.fetch import FetchRequest
from kcore.schema.headers import RequestHeader
from kcore.schema.index import message_class
from kcore.schema.structure import Message, Struct
from kcore.schema.transactions import (
    AddPartitionsToTxnRequest,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kcore.server import request_parts
from kcore.server.broker.broker_authorization import BrokerAuthorization, _not_marked
from kcore.server.broker.broker_request_handlers import APIS, BrokerRequestHandlers, HandlerParts
from kcore.server.broker.replica_requests import ReplicaRequests
from kcore.server.request_parts import SPLITTINGS, add_response, checked_in_parts, parts_of
from kcore.server.security.byte_quotas import ByteQuotas
from kcore.server.security.request_throttle import KnownByImage, RequestThrottle
from kcore.server.security.rights import Checked
from kcore.types import Uuid
from kcore.wire.codec import decode, encode
from kcore.wire.jsonform import to_json

AT_ONCE = 10
ENTRIES = 95


def names_in(kind: Any, path: Any) -> Iterator[str]:
    for name in path:
        [found] = [each for each in kind.__fields__ if each.name == name]
        yield name
        kind = found.type.element.struct


def test_requests_and_responses_have_the_lists() -> None:
    for kind, splitting in SPLITTINGS.items():
        for lists in splitting.lists:
            assert [*names_in(kind, lists.requested)] == [*lists.requested], kind
            assert [*names_in(response_of(kind), lists.answered)] == [*lists.answered], kind


def leaves(struct: Struct, path: Any) -> list[Any]:
    """The entries of the innermost list, each with those around it."""
    values = getattr(struct, path[0]) or ()
    if len(path) == 1:
        return [repr(each) for each in values]
    plain = {each.name for value in values[:1] for each in value.__fields__} - {path[1]}
    return [
        (*(repr(getattr(value, name)) for name in sorted(plain)), inner)
        for value in values
        for inner in leaves(value, path[1:])
    ]


def every_array() -> Iterator[Large]:
    apis = {kind.__name__.removesuffix("Request"): (0, kind.versions.highest) for kind in SPLITTINGS}
    yield from largest(Target("any", 1, "cluster", "", apis), 100)


def test_the_parts_of_a_request_are_its_entries() -> None:
    many = 0
    for large in every_array():
        lists = SPLITTINGS[type(large.message)].lists
        for each in lists:
            parts = [*parts_of(large.message, lists, AT_ONCE)]
            found = [leaf for part in parts for leaf in leaves(part, each.requested)]
            assert found == leaves(large.message, each.requested), (large.api, large.array)
            assert all(len(leaves(part, each.requested)) <= AT_ONCE for part in parts)
            many += len(parts) > 5
    assert many > 50


def test_the_other_lists_of_a_request_are_not_repeated() -> None:
    large = next(each for each in every_array() if each.api == "DeleteTopics")
    request: Any = large.message
    request.topic_names = [f"n{number}" for number in range(ENTRIES)]
    parts = [*parts_of(request, SPLITTINGS[type(request)].lists, AT_ONCE)]
    assert all(not part.topics or not part.topic_names for part in parts)
    assert [name for part in parts for name in part.topic_names] == request.topic_names


def test_an_entry_that_is_split_is_one_entry_of_the_response() -> None:
    markers = [
        WritableTxnMarker(producer_id=7, topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[*range(95)])])
    ]
    request = WriteTxnMarkersRequest(markers=markers)
    splitting = SPLITTINGS[WriteTxnMarkersRequest]
    whole: Any = None
    for part in parts_of(request, splitting.lists, AT_ONCE):
        whole = add_response(
            whole, WriteTxnMarkersResponse(markers=[_not_marked(each) for each in part.markers]), splitting
        )
    [marker] = whole.markers
    [topic] = marker.topics
    assert [each.partition_index for each in topic.partitions] == [*range(95)]


def test_parts_that_are_allowed_and_refused_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is refused as a whole adds its refusals to the answer of the others."""
    monkeypatch.setattr(request_parts, "ENTRIES_AT_ONCE", AT_ONCE)
    resource, result = AlterConfigsRequestAlterConfigsResource, AlterConfigsResourceResponse
    resources = [resource(resource_type=2, resource_name=str(number)) for number in range(35)]
    request, response = AlterConfigsRequest(resources=resources), AlterConfigsResponse

    def check(part: Any) -> Checked | Message:
        first = int(part.resources[0].resource_name)
        if first == AT_ONCE:
            return response(responses=[result(resource_name=each.resource_name) for each in part.resources])
        return Checked(part, False, lambda answer: answer.responses.append(result(resource_name=f"after {first}")))

    checked = asyncio.run(checked_in_parts(request, check))
    assert isinstance(checked, Checked) and not checked.is_empty
    left: Any = checked.request
    assert [int(each.resource_name) for each in left.resources] == [*range(10), *range(20, 35)]
    answer: Any = response(responses=[])
    checked.complete(answer)
    names = [each.resource_name for each in answer.responses]
    assert names == ["after 0", "after 20", "after 30", *map(str, range(10, 20))]


class Turns:
    """Counts what happens in one turn of the event loop at the most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def add(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    async def watch(self, time_out: Callable[[], None]) -> None:
        most = 0
        for number in count():
            self.now = 0
            await asyncio.sleep(0)
            if number % 1000 == 999:
                time_out()  # Its look-ups belong to no turn of a request.
                self.most = most
            most = self.most


class Mode:
    """The mode of a broker of the tests, whose cluster has no nodes."""

    authorization: Final = BrokerAuthorization

    def refuse(self, context: RequestContext, request: Message) -> None:
        """It refuses nothing."""

    def cordoned(self) -> tuple[Uuid, ...]:
        return ()

    def view(self, listener: str) -> Any:
        return SimpleNamespace(nodes=dict)

    async def may_coordinate(self) -> bool:
        return False

    async def administer(self, context: RequestContext, request: Message) -> Message | None:
        return None


def handlers_of(authorizer: Any, turns: Turns) -> tuple[BrokerRequestHandlers[Mode], Callable[[], None]]:
    """Those of a broker that leads one partition, whose look-ups of partitions are counted; and what ends all waits."""
    cluster = led()
    manager: Any = cluster.brokers[1]
    partition = manager.partition

    def counted(key: Any) -> Any:
        turns.add()
        return partition(key)

    def perform() -> None:
        for output in manager.take_outputs():
            if isinstance(output, SendResponse):
                waiting.answer(output.request_id, output.response)
            elif isinstance(output, SendInSteps):
                waiting.answer(output.request_id, output.steps)

    def now_ms() -> int:
        return cluster.now_ms

    manager.partition, waiting = counted, ReplicaRequests(manager, perform)
    logs: Any = SimpleNamespace(directories=[])
    creation: Any = SimpleNamespace(creates_ordinary=False)
    never: Any = None
    quotas = ByteQuotas(RequestThrottle(KnownByImage(lambda: None), now_ms, lambda *_: False))
    parts = HandlerParts(manager, logs, now_ms, now_ms, waiting, never, creation, quotas)
    handlers = BrokerRequestHandlers(parts, Mode(), authorizer)

    def time_out() -> None:
        manager.tick(cluster.now_ms + 10**9)
        perform()

    return handlers, time_out


def answered(large: Large, most: int, authorizer_of: Callable[[Turns], Any]) -> tuple[Message | None, Turns]:
    """The answer of a broker that handles so many entries in a part, and what its turns did."""
    turns, kind = Turns(), type(large.message)
    message = decode(kind, large.version, bytes(encode(large.message, large.version)))
    header = RequestHeader(request_api_key=kind.api_key, request_api_version=large.version)
    context = RequestContext("a client", 1, header, ClientSession("L", "127.0.0.1"))

    async def ask() -> Message | None:
        handlers, time_out = handlers_of(authorizer_of(turns), turns)
        watching = asyncio.ensure_future(turns.watch(time_out))
        try:
            return await handlers.handle(context, message)
        finally:
            watching.cancel()

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(request_parts, "ENTRIES_AT_ONCE", most)
        for name in ("fetching", "fetch_sessions", "offsets", "producing"):
            monkeypatch.setattr(f"kcore.broker.replicas.{name}.PARTITIONS_A_STEP", most)
        return asyncio.run(ask()), turns


def entries_of(answer: Any) -> Counter[str]:
    """The results in an answer: their order may differ, and a topic may be in it twice."""

    def flat(value: Any, around: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            plain = {name: each for name, each in value.items() if not isinstance(each, list)}
            here = f"{around}/{plain}"
            lists = [each for each in value.values() if isinstance(each, list) and each]
            for each in lists:
                for inner in each:
                    yield from flat(inner, here)
            if not lists:
                yield here
        else:
            yield f"{around}/{value}"

    return Counter(flat(to_json(answer, type(answer).versions.highest)))


class Refusing:
    """Refuses everything, and counts the questions."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def allows(self, *_: object) -> bool:
        self._turns.add()
        return False

    allows_on_any = allows


def nobody(turns: Turns) -> None:
    """No authorizer: every client may do everything."""


OF_BROKERS = [name for name in APIS if message_class(f"{name}Request") in {*SPLITTINGS, FetchRequest}]
OF_MODES = {DescribeConfigsRequest}  # Answered by the broker's mode, if they are allowed.
REFUSED_AT_THE_TOP = {AddPartitionsToTxnRequest}


@pytest.mark.parametrize("authorizer_of", [Refusing, nobody], ids=["refused", "allowed"])
@pytest.mark.parametrize("api", OF_BROKERS)
def test_a_turn_handles_a_part_and_the_answer_is_that_of_the_whole(
    api: str, authorizer_of: Callable[[Turns], Any]
) -> None:
    kind, is_refused = message_class(f"{api}Request"), authorizer_of is Refusing
    if kind in (REFUSED_AT_THE_TOP if is_refused else OF_MODES):
        return
    compared = 0
    for large in largest(Target("any", 1, "cluster", "", {api: APIS[api]}), ENTRIES):
        in_parts, turns = answered(large, AT_ONCE, authorizer_of)
        whole, _ = answered(large, 10**9, authorizer_of)
        assert entries_of(in_parts) == entries_of(whole), large.array
        assert turns.most <= 3 * AT_ONCE, large.array  # A partition may be looked up again for its commit.
        compared += len(entries_of(whole)) > AT_ONCE
    assert compared
