"""Running free: kcore's controller runs a recorded story on its own state, log and dice, and is compared at each step.

Ids that a controller makes are paired with Kafka's in the order in which they appear; Kafka's are replaced by kcore's
in later requests and expectations. A step's `free` names times and messages that print objects, which are masked; its
`unordered` names lists and records that compare as sets. All other values are literal: placements, offsets, epochs,
batch bounds, record versions, codes and messages.
"""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import kcore
from controller.kraft.recorded.differences import RENOUNCED, Difference
from controller.kraft.recorded.explanations import explanation
from controller.kraft.recorded.story_node import BEGIN_MS
from controller.kraft.recorded.story_wire import NAMES, Json, request_bytes, response_json
from controller.kraft.recorded.story_world import TURNS, StoryWorld, registered
from controller.kraft.stories import NESTED
from kcore.controller.kraft.departures import REFUSED_KRAFT_VERSION
from kcore.schema.headers import RequestHeader
from kcore.wire.codec import decode_from, encode

PATH: Final = re.compile(r"([A-Za-z]+)|\[(\d+|\*)\]")
PAIRED: Final = frozenset({"uuid", "token"})
MASKED: Final = frozenset({"timestamp", "message"})
ISSUED: Final = "issueTimestampMs"
STATE: Final = frozenset({"batches", "snapshot"})
NAMED: Final = frozenset({"features", "endPoints"})
INCARNATION: Final = "incarnationId"


def differences(story: Json, kafka_way: frozenset[str]) -> list[Difference]:
    """All of one story, up to the first one that a departure explains and behind which the states differ."""

    async def run() -> list[Difference]:
        return [each async for each in FreeRun(story, kafka_way).differences()]

    return asyncio.run(run())


class FreeRun:
    """One story."""

    def __init__(self, story: Json, kafka_way: frozenset[str]) -> None:
        self.story, self.kafka_way = story, kafka_way
        self.ids: dict[str, str] = {}  # Kafka's to kcore's.
        self._epochs = Epochs(), Epochs()
        self._has_refused_level = False  # For the departure "refused-kraft-version".

    async def differences(self) -> AsyncIterator[Difference]:
        async with StoryWorld(self.story, self.kafka_way) as self.world:
            for each in self._bootstrap():
                yield each
                return
            for place, step in enumerate(self.story["steps"]):
                found = await self._taken(step)
                differences = list(self._compared(place, step, found))
                for each in differences:
                    yield each
                explained = [explanation(each, self.story, self.kafka_way) for each in differences]
                if any(explained) and any(each.what in STATE for each in differences):
                    return  # From here on the states differ, as a departure says.

    def _bootstrap(self) -> Iterator[Difference]:
        """Compares the records before the first step."""
        wanted, given = {"batches": self.story["bootstrap"]}, {"batches": self.world.written()}
        self._learn_incarnations(wanted, given)
        wanted = self._known(wanted)
        self._level(wanted, given)
        if wanted != given:
            yield Difference(self.story["story"], -1, "bootstrap", "batches", wanted["batches"], given["batches"])

    # A step.

    async def _taken(self, step: Json) -> Json:
        """The answer and the records of kcore."""
        world, clocks = self.world, self.world.clocks
        if step["kind"] == "advance":
            world.advance(step["ms"])
            return {"batches": world.written()}
        if step["kind"] in TURNS:
            found = await world.turn(step)
            return {**found, "batches": world.written()}
        stamp = (step["response"] or {}).get(ISSUED, 0)
        clocks.wall_ms = max(clocks.wall_ms, stamp, *_times(step), BEGIN_MS)
        if self._has_refused_level and _writes_level(step):
            world.active.upgrade_kraft_version()
            self._has_refused_level = False
        self._has_refused_level |= REFUSED_KRAFT_VERSION not in self.kafka_way and _refuses_level(step)
        leads = world.active
        if step.get("renounced"):
            world.edge.preferred = step.get("leader", -1)
        answer = await world.ask(self._request(step), step.get("node"))
        found = {**_answered(step, answer), RENOUNCED: leads.controller.epoch is None}
        if found[RENOUNCED]:
            world.wait_for_leadership()
        elif step.get("renounced"):
            world.elect_again(step.get("leader", -1))
        await world.register(registered(step["batches"]))
        found["batches"] = world.written()
        return found

    def _request(self, step: Json) -> bytes:
        if "requestHex" in step:
            return bytes.fromhex(step["requestHex"])
        envelope = step.get("envelope")
        if envelope is None:
            return request_bytes(step["api"], step["version"], self._known(step["request"]), 0)
        body = envelope["request"]
        if step["response"] is not None and step["request"] is not None:
            data = base64.b64decode(body["requestData"])
            body = {**body, "requestData": base64.b64encode(self._inner(step, data)).decode()}
        return request_bytes("Envelope", 0, body, 0)

    def _inner(self, step: Json, data: bytes) -> bytes:
        """The request in an envelope, with kcore's ids."""
        cls, version = NAMES[step["api"]], step["version"]
        header, _ = decode_from(RequestHeader, cls.header_version(version), data)
        request = kcore.from_json(cls, version, self._known(step["request"]))
        return bytes(encode(header, cls.header_version(version))) + bytes(kcore.encode(request, version))

    def _known(self, value: Any) -> Any:
        """A copy, with kcore's ids for Kafka's."""
        if isinstance(value, dict):
            return {key: self._known(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._known(each) for each in value]
        return self.ids.get(value, value) if isinstance(value, str) else value

    def _compared(self, place: int, step: Json, found: Json) -> Iterator[Difference]:
        name = self.story["story"], place, step.get("api") or step["kind"]
        self._learn(step, found)
        keys = [key for key in ("response", "closed", "responseVersion", "snapshot") if key in step or key in found]
        envelope = step.get("envelope")
        wanted: Json = self._known({key: step.get(key) for key in (*keys, "batches")})
        if RENOUNCED in found:
            wanted[RENOUNCED] = step.get("renounced", False)
        if envelope is not None:
            wanted["envelopeError"] = envelope.get("errorCode")
        for free in step["free"]:
            if free["kind"] in MASKED:
                _put(wanted, free["path"], "masked")
                _put(found, free["path"], "masked")
        self._level(wanted, found)
        if step["kind"] == "advance":
            for side in (wanted, found):
                side["batches"] = [{"records": [*_records(side)]}]
        for side in (wanted, found):
            _order(side, [*NESTED.get(step.get("api"), ()), *step["unordered"]])
        for what in wanted:
            if wanted[what] != found.get(what):
                yield Difference(*name, what, wanted[what], found.get(what), step.get("note"))

    def _level(self, wanted: Json, found: Json) -> None:
        """In a quorum epochs are counted as they appear, for an election may need several; and who voted is chance."""
        for side in (wanted, found):
            if "snapshot" in side:
                side["snapshot"]["records"] = sorted(map(_of_snapshot, side["snapshot"]["records"]), key=_text)
            if self.world.is_quorum:
                self._epochs[side is wanted].level(side)

    def _learn_incarnations(self, wanted: Json, found: Json) -> None:
        """Pairs the incarnations in registrations of controllers, which are in one batch or in several."""
        for left, right in zip(_records(wanted), _records(found), strict=False):
            if left["type"] == right["type"] == "RegisterControllerRecord":
                self.ids.setdefault(left["json"][INCARNATION], right["json"][INCARNATION])

    def _learn(self, step: Json, found: Json) -> None:
        self._learn_incarnations(step, found)
        for free in step["free"]:
            if free["kind"] in PAIRED:
                wanted, given = _at(step, free["path"]), _at(found, free["path"])
                if isinstance(wanted, str) and isinstance(given, str):
                    self.ids.setdefault(wanted, given)


def _answered(step: Json, answer: bytes | None) -> Json:
    found: Json = {"response": None}
    if answer is None:
        found["closed"] = True
    elif step.get("envelope") is not None:
        outer, _ = response_json("Envelope", 0, answer)
        found["envelopeError"] = outer["errorCode"]
        answer = base64.b64decode(outer["responseData"] or "") or None
    if answer is not None:
        found["response"], version = response_json(step["api"], step["version"], answer)
        if version != step["version"]:
            found["responseVersion"] = version
    return found


def _times(step: Json) -> Iterator[int]:
    """When it was, for what is stamped."""
    for batch in step["batches"]:
        yield from (each["json"]["issueTimestamp"] for each in batch["records"] if "issueTimestamp" in each["json"])


def _records(side: Json) -> Iterator[Json]:
    for batch in side["batches"]:
        yield from batch["records"]


def _writes_level(step: Json) -> bool:
    return any(each["type"] == "KRaftVersionRecord" for each in _records(step))


def _refuses_level(step: Json) -> bool:
    """Whether it is an UpdateFeatures that is refused as a whole, and that names kraft.version."""
    if step["api"] != "UpdateFeatures" or not (step["response"] or {}).get("errorCode"):
        return False
    request = step["request"]
    return not request.get("validateOnly") and any(
        each["feature"] == "kraft.version" for each in request["featureUpdates"]
    )


class Epochs:
    """Raft's epochs of one side, by the order in which they appear in the log."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def level(self, side: Json) -> None:
        """Puts their numbers in place of them."""
        side["batches"] = [part for batch in side["batches"] for part in _registrations_apart(batch)]
        for batch in side["batches"]:
            batch["epoch"] = self._number(batch["epoch"])
            for record in batch["records"]:
                if record["type"] == "LeaderChangeMessage":
                    del record["json"]["grantingVoters"]
                    record["json"]["voters"].sort(key=_text)  # In Kafka the order of a hash table.
        if "snapshot" in side:
            side["snapshot"]["epoch"] = self._number(side["snapshot"]["epoch"])
        response = side.get("response") or {}
        response.get("nodes", []).sort(key=_text)
        for topic in response.get("topics", []):
            for partition in topic.get("partitions", []) if isinstance(topic, dict) else []:
                if "currentVoters" in partition:
                    self._describe(partition)

    def _describe(self, quorum: Json) -> None:
        """Fills fields of DescribeQuorum; the progress of followers is random. Epoch 0: no leader is named."""
        quorum["leaderEpoch"] = self._number(quorum["leaderEpoch"]) if quorum["leaderEpoch"] > 0 else -1
        for replica in (*quorum["currentVoters"], *quorum["observers"]):
            for name in ("logEndOffset", "lastFetchTimestamp", "lastCaughtUpTimestamp"):
                replica.pop(name, None)
        quorum["currentVoters"].sort(key=_text)

    def _number(self, epoch: int) -> int:
        return self._known.setdefault(epoch, len(self._known))


def _registrations_apart(batch: Json) -> list[Json]:
    """Controllers that register at the same time may share a batch."""
    if any(each["type"] != "RegisterControllerRecord" for each in batch["records"]):
        return [batch]
    return [{**batch, "baseOffset": each["offset"], "records": [each]} for each in batch["records"]]


def _of_snapshot(record: Json) -> Json:
    """Without a token's times, which are the recorder's; what Kafka keeps in maps has no order."""
    body = {key: value for key, value in record["json"].items() if not key.endswith("Timestamp")}
    for name in NAMED & {*body}:
        body[name] = sorted(body[name], key=_text)
    return {**record, "json": body}


# Places in a step.


def parts_of(path: str) -> list[str | int]:
    """The keys and indices on the way."""
    return [name or (number if number == "*" else int(number)) for name, number in PATH.findall(path)]


def _at(node: Any, path: str) -> Any:
    for part in parts_of(path):
        try:
            node = node[part]
        except (LookupError, TypeError):
            return None
    return node


def _put(node: Any, path: str, value: str) -> None:
    *parts, last = parts_of(path)
    for part in parts:
        try:
            node = node[part]
        except (LookupError, TypeError):
            return
    if (isinstance(node, dict) and last in node) or (isinstance(node, list) and int(last) < len(node)):
        node[last] = value


def _order(side: Json, unordered: list[str]) -> None:
    """Values without an order are sorted."""
    for path in sorted(unordered, key=len, reverse=True):  # Inner values come first.
        if path.startswith("response"):
            _sort(side, parts_of(path))
    for batch in side["batches"]:
        batch["records"] = _sorted_runs(batch["records"], unordered)


def _sort(node: Any, parts: list[str | int]) -> None:
    if not parts:
        if isinstance(node, list):
            node.sort(key=_text)
    elif parts[0] == "*":
        for each in node or []:
            _sort(each, parts[1:])
    elif isinstance(node, dict):
        _sort(node.get(parts[0]), parts[1:])


def _sorted_runs(records: list[Json], kinds: list[str]) -> list[Json]:
    """Records of one of these types that follow each other, by their text and without their offsets."""
    found: list[Json] = []
    run: list[Json] = []
    for each in [*records, {"type": None}]:
        if run and each["type"] != run[0]["type"]:
            found += sorted(run, key=_text)
            run = []
        if each["type"] in kinds:
            run.append({key: value for key, value in each.items() if key != "offset"})
        elif each["type"] is not None:
            found.append(each)
    return found


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
