"""Recorded stories of a real KRaft controller, and kcore's decisions beside them, step by step.

"Follow": before each step the state is what the recorded log makes it. The request is decided upon it; response and
records are compared with the recorded ones, and the recorded records take effect. The step's own `free` list masks
random values (ids, tokens, time stamps); placements are compared literally.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import kcore
from controller.kraft.advances import Advances
from controller.kraft.contexts import decision_of
from controller.kraft.recorded.differences import RENOUNCED, Difference
from controller.kraft.recorded.story_node import nodes_of
from controller.kraft.recorded.story_world import TURNS
from kcore.controller.kraft.activation import Bootstrap, activation
from kcore.controller.kraft.decision import Decision, encoded
from kcore.controller.kraft.departures import KAFKA_WAY
from kcore.controller.kraft.handlers import HANDLERS
from kcore.controller.kraft.kafka_way.faults import ControllerFaultError
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.principal import KafkaPrincipal
from kcore.protocol_errors import ApiException
from kcore.replication.java_random import JavaRandom
from kcore.schema.catalogue import message_class
from kcore.schema.metadata_records_security import DelegationTokenRecord
from kcore.schema.structure import Message, MetadataRecord
from kcore.types import Uuid
from kcore.wire.metadata_frames import decode_metadata_record
from kraft_configs import controller_config

Json = dict[str, Any]
BEGIN_MS = 1_700_000_000_000
DAY_MS = 24 * 3600 * 1000
ISSUED = "issueTimestampMs"  # For a token: the time of the request. Its other times follow from that one.
# Beside what a step says: the table does not know in which order a topic's partitions began to move.
NESTED = {"ListPartitionReassignments": ("response.topics[*].partitions",)}
MASKED = frozenset({"uuid", "token", "timestamp", "message"})
OF_THE_NODE = frozenset(  # APIs without a handler of the controller: the raft node answers them, or no server does.
    {
        *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "DescribeQuorum", "ApiVersions", "Fetch", "Envelope"),
        *("SaslHandshake", "SaslAuthenticate", "ControlledShutdown", "Metadata", "DescribeClientQuotas"),
    }
)
VOLATILE = frozenset({"BrokerHeartbeat"})  # No record has its content, on which others depend: always decided.
BY_TOKEN = " by token"  # Behind the name of a principal that showed a delegation token.
CONTROL = frozenset({"LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"})
SKIPPED = frozenset({"BeginTransactionRecord", "EndTransactionRecord"})  # They frame batches, which raft decides.


def records_in(batches: list[Json]) -> Iterator[Json]:
    """Metadata records alone."""
    for batch in batches:
        yield from (each for each in batch["records"] if each["type"] not in CONTROL)


@dataclass
class Follower:
    """One story. `kafka_way`: the departures that are switched back."""

    story: Json
    kafka_way: frozenset[str] = KAFKA_WAY
    contexts: dict[int, ControllerContext] = field(init=False)  # The contexts of the running controllers.
    context: ControllerContext = field(init=False)  # The context of the active controller.
    now_ms: int = BEGIN_MS
    wall_ms: int = BEGIN_MS  # Tokens have the system's time, whatever the recorder does to the controller's clock.

    def __post_init__(self) -> None:
        self.past = list[Json]()
        self.snapshots: dict[int, Json] = {}  # The last one of each controller.
        self.kraft_version = 0
        seed = self.story["placementSeed"]
        self.contexts = {each["controllerId"]: self._context(each["config"], seed) for each in nodes_of(self.story)}
        self._replay(self.story["bootstrap"])
        self._led_by(self.story.get("leader", self.story["controllerId"]))

    def _context(self, config: Json, placement_seed: int) -> ControllerContext:
        """The context of a controller that starts."""
        ids = iter(range(1, 1 << 62))
        context = ControllerContext(
            config_of(self.story, config, self.kafka_way),
            ClusterImage(),
            JavaRandom(placement_seed),
            lambda: Uuid(next(ids).to_bytes(16, "big")),
        )
        context.shadow = shadow_of(self.kafka_way)
        return context

    def _led_by(self, node_id: int) -> None:
        """A controller has become the active one."""
        self.context = self.contexts[node_id]
        self.context.activate(self.now_ms)
        self.advances = Advances(self.context, self.now_ms)

    def _replay(self, batches: list[Json]) -> None:
        self.past += batches
        for context in self.contexts.values():
            self._replay_in(context, batches)

    def _replay_in(self, context: ControllerContext, batches: list[Json]) -> None:
        for each in records_in(batches):
            record = kcore.from_json(each["type"], each["version"], each["json"])
            assert isinstance(record, MetadataRecord)
            if isinstance(record, DelegationTokenRecord):
                self.wall_ms = max(self.wall_ms, record.issue_timestamp)
            context.apply(record, each["offset"], self.now_ms)
            if context.shadow.eligible is not None:
                context.shadow.eligible.replay(record)
        for batch in batches:  # Control records take offsets, too.
            for each in batch["records"]:
                if each["type"] == "KRaftVersionRecord":
                    self.kraft_version = each["json"]["kRaftVersion"]
            context.image.end_offset = max(context.image.end_offset, batch["records"][-1]["offset"] + 1)
        context.raft.kraft_version = self.kraft_version

    def differences(self, apis: frozenset[str] | None = None) -> Iterator[Difference]:
        """All of the story; of the requests in `apis` alone, if given."""
        for place, step in enumerate(self.story["steps"]):
            if step["kind"] == "advance":
                differences = self._advanced(place, step)
                yield from (each for each in differences if apis is None or each.api in apis)
            elif step.get("request") is not None:
                differences = self._compared(place, step) if apis is None or step["api"] in apis | VOLATILE else ()
                yield from (each for each in differences if apis is None or each.api in apis)
            elif step["kind"] in TURNS:
                yield from self._turned(place, step)
            self._replay(step["batches"])
            if step.get("renounced") or (step["kind"] in TURNS and _elects(step)):
                self._led_by(step.get("leader", self.story["controllerId"]))
            self.advances.on_change(self.now_ms)

    def _advanced(self, place: int, step: Json) -> Iterator[Difference]:
        """Periodic tasks run when time passes; how several events share batches is chance, and so is their order."""
        self.context.wall_ahead_ms = self.wall_ms - self.now_ms - step["ms"]
        self.now_ms, found = self.advances.advance(self.now_ms, step["ms"])
        wanted, given = (masked(step, None, each)[1] for each in (list(records_in(step["batches"])), found))
        left, right = sorted(wanted, key=repr), sorted(given, key=repr)
        if left != right:
            yield Difference(self.story["story"], place, "advance", "records", left, right, step.get("note"))

    def _turned(self, place: int, step: Json) -> Iterator[Difference]:
        """A controller that starts has nothing but its disk. The active one writes what `activation` says first."""
        node_id = step["node"]
        if step["kind"] == "snapshot":
            self.snapshots[node_id] = step["snapshot"]
        elif step["kind"] == "stop":
            del self.contexts[node_id]
        elif step["kind"] == "start":
            context = self._context(step["config"], step["placementSeed"])
            if snapshot := self.snapshots.get(node_id):
                last = snapshot["offset"] - 1  # Kafka replays all of a snapshot as if it stood there.
                self._replay_in(context, [{"records": [{**each, "offset": last} for each in snapshot["records"]]}])
            begin = context.image.end_offset
            self._replay_in(context, [each for each in self.past if each["baseOffset"] >= begin])
            self.contexts[node_id] = context
            self._replay(step.get("leftover", []))
        if "leader" not in step or not _elects(step):
            return
        context = self.contexts[step["leader"]]
        made = activation(context.image, context.config, Bootstrap([], ""), is_empty=False)
        expected = [each for each in records_in(step["batches"]) if each["type"] != "RegisterControllerRecord"]
        wanted, given = ([{**each, "offset": 0} for each in side] for side in (expected, self._records(made.decision)))
        if wanted != given:
            yield Difference(self.story["story"], place, step["kind"], "records", wanted, given)

    def _compared(self, place: int, step: Json) -> Iterator[Difference]:
        if step["api"] in OF_THE_NODE or _refused_before(step):
            return
        message = message_class(step["api"] + "Request")
        if message not in HANDLERS:
            yield Difference(self.story["story"], place, step["api"], "no handler", step["response"], None)
            return
        request = kcore.from_json(message, step["version"], step["request"])
        name = self.story["story"], place, step["api"]
        dice = self.context.random.state
        try:
            decision, resigns = self._decided(request, info_of(step, self.now_ms, self.wall_ms))
            response = None if decision.response is None else kcore.to_json(decision.response, step["version"])
            found = [each for each in self._records(decision) if each["type"] not in SKIPPED]
        except ApiException as error:  # A handler answers with a response of its own.
            yield Difference(*name, type(error).__name__, step["response"], str(error), step.get("note"))
            return
        answered = step["batches"]
        while step.get("after") and answered and _registers(answered[-1]):  # The controllers' own, after the response.
            answered = answered[:-1]
        expected = [each for each in records_in(answered) if each["type"] not in SKIPPED]
        wanted, given = masked(step, step["response"], expected), masked(step, response, found)
        differs = False
        wanted, given = (*wanted, step.get("renounced", False)), (*given, resigns)
        for what, left, right in zip(("response", "records", RENOUNCED), wanted, given, strict=True):
            if left != right:
                differs = True
                yield Difference(*name, what, left, right, step.get("note"))
        if differs and self.kafka_way != KAFKA_WAY:  # A departure may have thrown the dice otherwise.
            self.context.random.state = dice
            config = self.context.config
            self.context.config = replace(config, kafka_way=KAFKA_WAY)
            self._decided(request, info_of(step, self.now_ms, self.wall_ms))
            self.context.config = config

    def _decided(self, request: Message, info: RequestInfo) -> tuple[Decision, bool]:
        """The decision, and whether the controller gives up its leadership over the request."""
        try:
            return decision_of(self.context, request, info), False
        except ControllerFaultError as error:
            return Decision(error.answer(request)), True

    def _records(self, decision: Decision) -> Iterator[Json]:
        context, values = self.context, []
        for each in encoded(context.image, decision.records, context.version):
            values += each
        for value in values:
            record, version = decode_metadata_record(value)
            yield {"type": type(record).__name__, "version": version, "json": kcore.to_json(record, version)}


def _registers(batch: Json) -> bool:
    return bool(batch["records"][0]["type"] == "RegisterControllerRecord")


def _elects(step: Json) -> bool:
    """Whether there is a new epoch."""
    return any(each["type"] == "LeaderChangeMessage" for batch in step["batches"] for each in batch["records"])


def config_of(story: Json, given: Json, kafka_way: frozenset[str]) -> KraftControllerConfig:
    """The settings of a controller with these properties."""
    return controller_config(
        node_id=int(given["node.id"]),
        cluster_id=story["clusterId"],
        release=story["release"],
        supported_features={name: tuple(bounds) for name, bounds in story["supportedFeatures"].items()},
        default_replication_factor=int(given.get("default.replication.factor", 1)),
        num_partitions=int(given.get("num.partitions", 1)),
        broker_session_timeout_ms=story["sessionTimeoutMs"],
        auto_leader_rebalance_enable=given.get("auto.leader.rebalance.enable", "true") == "true",
        delegation_token_secret_key=given.get("delegation.token.secret.key"),
        delegation_token_max_lifetime_ms=int(given.get("delegation.token.max.lifetime.ms", 7 * DAY_MS)),
        delegation_token_expiry_time_ms=int(given.get("delegation.token.expiry.time.ms", DAY_MS)),
        delegation_token_expiry_check_interval_ms=int(given.get("delegation.token.expiry.check.interval.ms", 3600000)),
        has_authorizer="authorizer.class.name" in given,
        super_users=tuple(filter(None, given.get("super.users", "").split(";"))),
        allow_everyone_if_no_acl_found=given.get("allow.everyone.if.no.acl.found") == "true",
        static_configs=given,
        metadata_max_idle_interval_ms=int(given["metadata.max.idle.interval.ms"]),
        kafka_way=kafka_way,
    )


def _refused_before(step: Json) -> bool:
    """Whether nothing came to be decided: a standby was asked, the connection closed, or the envelope refused."""
    return bool("node" in step or step.get("closed") or (step.get("envelope") or {}).get("errorCode"))


def info_of(step: Json, now_ms: int, wall_ms: int) -> RequestInfo:
    """The sender of the request and its address."""
    envelope = step.get("envelope")
    wall_ms = max(wall_ms, (step["response"] or {}).get(ISSUED, 0))
    if envelope is None:
        return RequestInfo(step["version"], now_ms, wall_ms)
    kind, _, name = envelope["principal"].removesuffix(BY_TOKEN).partition(":")
    return RequestInfo(
        step["version"],
        now_ms,
        wall_ms,
        KafkaPrincipal(name, kind),
        envelope["clientAddress"],
        is_forwarded=True,
        is_token_authenticated=envelope["principal"].endswith(BY_TOKEN),
    )


# Parts that cannot be equal.


def masked(step: Json, response: Any, records: list[Json]) -> tuple[Any, list[Json]]:
    """Copies without what is free in this step, and with what has no order in one."""
    whole = {"response": _copy(response), "records": [_copy(each) for each in records]}
    for each in whole["records"]:
        each.pop("offset", None)
    places = _places(step)
    for free in step["free"]:
        if free["kind"] in MASKED and not (free["kind"] == "timestamp" and ISSUED in (step["response"] or {})):
            _mask(whole, _parts(free["path"], places))
    for path in (*NESTED.get(step.get("api"), ()), *step["unordered"]):
        if path.startswith("response"):
            _sort(whole, _parts(path, places))
        else:
            whole["records"] = _sorted_runs(whole["records"], path)
    return whole["response"], whole["records"]


def _places(step: Json) -> dict[tuple[int, int], int]:
    """Where, among the metadata records of the step, record k of batch b is."""
    places: dict[tuple[int, int], int] = {}
    for b, batch in enumerate(step["batches"]):
        for k, each in enumerate(batch["records"]):
            if each["type"] not in CONTROL | SKIPPED:
                places[b, k] = len(places)
    return places


def _parts(path: str, places: dict[tuple[int, int], int]) -> list[Any]:
    parts: list[Any] = []
    for part in path.replace("]", "").replace("[", ".").split("."):
        parts.append(int(part) if part.isdecimal() else part)
    if parts[0] == "batches":
        return ["records", places.get((parts[1], parts[3]), -1), *parts[4:]]
    return parts


def _mask(node: Any, parts: list[Any]) -> None:
    for part in parts[:-1]:
        node = _at(node, part)
    last = parts[-1]
    if (isinstance(node, dict) and last in node) or (isinstance(node, list) and last < len(node)):
        node[last] = "*"


def _at(node: Any, part: Any) -> Any:
    if isinstance(node, dict):
        return node.get(part)
    if isinstance(node, list) and isinstance(part, int) and 0 <= part < len(node):
        return node[part]
    return None


def _sort(node: Any, parts: list[Any]) -> None:
    """The list at a path; `*` stands for every element."""
    if not parts:
        if isinstance(node, list):
            node.sort(key=repr)
    elif parts[0] == "*":
        for each in node if isinstance(node, list) else []:
            _sort(each, parts[1:])
    else:
        _sort(_at(node, parts[0]), parts[1:])


def _sorted_runs(records: list[Json], kind: str) -> list[Json]:
    result: list[Json] = []
    run: list[Json] = []
    for each in [*records, {"type": ""}]:
        if each["type"] == kind:
            run.append(each)
            continue
        result += sorted(run, key=repr)
        run = []
        result.append(each)
    return result[:-1]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def message_of(step: Json) -> type[Message]:
    """The request's class."""
    return message_class(step["api"] + "Request")
