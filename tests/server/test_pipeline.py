"""The steps of a request: their order, at each of the five servers, and what they read once."""

import ast
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcore.errors import DisconnectedError
from kcore.net.request_context import ClientSession, RequestContext
from kcore.protocol_errors import Errors
from kcore.schema.cluster_metadata import DescribeClusterRequest, DescribeClusterResponse
from kcore.schema.headers import ResponseHeader
from kcore.schema.structure import Message
from kcore.server.pipeline import STEPS, RequestPipeline, Route, response_bytes
from kcore.wire.codec import decode_from
from net.loops import context_in, request_frame

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "kcore"
REFUSED = DescribeClusterResponse(error_code=Errors.CLUSTER_AUTHORIZATION_FAILED)
# The modules with a call of `net.server.serve`, and the servers that they open.
OPENS = {
    "server/broker/broker_listening.py": "both brokers",
    "server/quorum_node/quorum_request_handlers.py": "a quorum node and a KRaft controller",
    "server/zk_controller/zk_controller_request_handlers.py": "a ZooKeeper-mode controller",
}


class Steps:
    """Parts of a pipeline, which record the order of their calls. It has as much of each part as the pipeline calls."""

    def __init__(self, refuses: bool = False) -> None:
        self.done: list[str] = []
        self.clients: list[tuple[str, str | None]] = []
        self._refuses = refuses

    def _refused(self) -> Message | None:
        self.done.append("authorize")
        return REFUSED if self._refuses else None

    def refuse(self, context: RequestContext, request: Message) -> Message | None:
        return self._refused()

    async def refuse_frame(self, context: RequestContext) -> Message | None:
        return self._refused()

    async def handle(self, context: RequestContext, request: Message) -> Message:
        self.done.append("handle")
        return DescribeClusterResponse(cluster_id="c")

    async def ask(self, context: RequestContext) -> bytes:
        return response_bytes(context, await self.handle(context, DescribeClusterRequest()))

    async def is_lost(self, context: RequestContext) -> bytes:
        self.done.append("handle")
        raise DisconnectedError("no broker")

    def takes(self, api_key: int) -> bool:
        return True

    def begin(self, context: RequestContext, request: Message, answer: Callable[[Message | None], None]) -> None:
        self.done.append("handle")
        answer(DescribeClusterResponse())

    def write(self, wall_ms: int, principal: Any, address: str, request: Any, response: Any, *via: Any) -> None:
        self.done.append("audit")
        self.clients.append((str(principal), via[0] and str(via[0])))

    def write_frame(self, wall_ms: int, context: RequestContext, answer: bytes | None) -> None:
        self.done.append("audit")

    is_on = True

    def answered(self, context: RequestContext, request: Message, response: Message, may: Any) -> None:
        self.done.append("throttle")

    def answered_through(self, session: ClientSession, context: RequestContext, response: Message) -> None:
        self.done.append("throttle")

    def answered_frame(self, context: RequestContext, answer: bytes, is_exempt: bool) -> bytes:
        self.done.append("throttle")
        return answer

    def pipeline(self, routes: tuple[Route, ...] = (), **parts: Any) -> RequestPipeline:
        own: Any = self
        return RequestPipeline(
            *(self.handle, lambda session: True),
            refuse=self.refuse,
            routes=routes,
            throttle=own,
            audit=own,
            wall_ms=lambda: 0,
            **parts,
        )


CONTEXT = context_in(request_frame(DescribeClusterRequest(), 0, 5)[4:])
ALL = [*STEPS[STEPS.index("authorize") : STEPS.index("answer")]]
WITHOUT_HANDLER = [step for step in ALL if step != "handle"]


@pytest.mark.parametrize(("refuses", "expected"), [(False, ALL), (True, WITHOUT_HANDLER)])
def test_a_decoded_request_passes_the_steps_in_order(refuses: bool, expected: list[str]) -> None:
    steps = Steps(refuses)
    answer = asyncio.run(steps.pipeline().handle(CONTEXT, DescribeClusterRequest()))
    assert steps.done == expected
    assert (answer is REFUSED) is refuses


@pytest.mark.parametrize(("refuses", "expected"), [(False, ALL), (True, WITHOUT_HANDLER)])
def test_a_frame_of_a_route_passes_the_same_steps(refuses: bool, expected: list[str]) -> None:
    steps = Steps(refuses)
    pipeline = steps.pipeline((Route(lambda *api: api == (60, 0), steps.ask, steps.refuse_frame),))
    assert pipeline.route(60, 1) is None and pipeline.route(3, 0) is None
    ask = pipeline.route(60, 0)
    assert ask is not None
    answer = asyncio.run(_awaited(ask(CONTEXT)))
    assert steps.done == expected
    header, at = decode_from(ResponseHeader, 1, answer)
    found, _ = decode_from(DescribeClusterResponse, 0, answer, at)
    assert (header.correlation_id, found.error_code) == (5, REFUSED.error_code if refuses else 0)


async def _awaited(answer: Any) -> bytes:
    found: bytes = await answer
    return found


def test_a_request_that_is_lost_on_its_route_has_its_line() -> None:
    steps = Steps()
    ask = steps.pipeline((Route(lambda *api: True, steps.is_lost),)).route(60, 0)
    assert ask is not None
    with pytest.raises(DisconnectedError):
        asyncio.run(_awaited(ask(CONTEXT)))
    assert steps.done == ["handle", "audit"]


def test_the_first_route_that_takes_a_request_answers_it() -> None:
    first, second, forgotten = Steps(), Steps(), list[int]()
    routes = tuple(Route(lambda *api: True, each.ask, forget=forgotten.append) for each in (first, second))
    pipeline = Steps().pipeline(routes)
    ask = pipeline.route(60, 0)
    assert ask is not None
    asyncio.run(_awaited(ask(CONTEXT)))
    assert (first.done, second.done) == (["handle"], [])
    pipeline.forget(7)
    assert forgotten == [7, 7]


def test_a_carried_request_passes_the_steps_for_its_client() -> None:
    steps = Steps()

    async def carry(pipeline: RequestPipeline, context: RequestContext, request: Message) -> Message | None:
        pipeline.refuse(context, request)
        session = ClientSession("PLAINTEXT", "::1")
        answer: Message | None = await pipeline.decided(context._replace(session=session, through=context), request)
        return answer

    pipeline = steps.pipeline(carriers={DescribeClusterRequest: carry})
    asyncio.run(pipeline.handle(CONTEXT, DescribeClusterRequest()))
    assert steps.done == ["authorize", *ALL]  # The carrying request is authorized, too.
    assert steps.clients == [("User:ANONYMOUS", "User:ANONYMOUS")]


@pytest.mark.parametrize(
    ("refuses", "expected"), [(False, ["authorize", "handle", "audit"]), (True, WITHOUT_HANDLER[:2])]
)
def test_a_request_without_a_task_passes_the_same_steps(refuses: bool, expected: list[str]) -> None:
    steps, answers = Steps(refuses), list[Message | None]()
    steps.is_on = False  # Without request quotas.
    direct: Any = steps
    pipeline = steps.pipeline(direct=direct)
    assert pipeline.takes(60) and pipeline.parts.direct is pipeline
    pipeline.begin(CONTEXT, DescribeClusterRequest(), answers.append)
    assert steps.done == expected and len(answers) == 1


def calls_of(name: str, folder: str = "server") -> dict[str, list[ast.Call]]:
    """The calls of a function by the modules that have them."""
    found: dict[str, list[ast.Call]] = {}
    for path in sorted((SRC / folder).rglob("*.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        if own := [each for each in calls if ast.unparse(each.func) == name]:
            found[path.relative_to(SRC).as_posix()] = own
    return found


def test_all_five_servers_serve_a_pipeline() -> None:
    calls = calls_of("serve")
    assert calls.keys() == OPENS.keys()
    for module, [call] in calls.items():
        assert "pipeline.handle" in ast.unparse(call), module
        text = (SRC / module).read_text("utf-8")
        assert "RequestPipeline(" in text and "pipeline.parts" in text, module


def test_the_header_of_a_request_is_read_once() -> None:
    readers = {
        module
        for folder in ("net", "server")
        for module, calls in calls_of("decode_from", folder).items()
        if any(call.args and ast.unparse(call.args[0]) == "RequestHeader" for call in calls)
    }
    of_sasl, of_envelopes = "net/security/sasl_server.py", "server/envelopes.py"  # They have other frames.
    assert readers - {of_sasl} == {"net/requests.py", of_envelopes}
    assert calls_of("KEY_AND_VERSION.unpack_from") == {}
    assert calls_of("KEY_AND_VERSION.unpack_from", "net").keys() - {of_sasl} == {
        *("net/direct_connections.py", "net/served_connection.py", "net/served_requests.py")
    }


def test_the_pages_have_the_steps_in_order() -> None:
    assert ", ".join(STEPS) in " ".join((ROOT / "docs/guides/listeners.md").read_text("utf-8").split())
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    table = text[text.index("## One request") : text.index("## One benchmark cell")]
    places = [table.index(f"| {step}") if f"| {step}" in table else table.index(f", {step}") for step in STEPS]
    assert places == sorted(places)
