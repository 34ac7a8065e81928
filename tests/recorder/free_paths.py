"""The parts of a step that may differ elsewhere, and its lists in the order of a hash of random ids."""

from collections.abc import Iterator
from typing import Any, Final

from controller.kraft.recorded.story_wire import Json

TOKEN_FIELDS: Final = {"hmac", "tokenId"}
TIME_FIELDS: Final = {
    *("issueTimestampMs", "expiryTimestampMs", "maxTimestampMs", "issueTimestamp", "expiryTimestamp", "maxTimestamp"),
    *("expirationTimestamp", "lastFetchTimestamp", "lastCaughtUpTimestamp"),
}
NO_ID: Final = "A" * 22
PLACED: Final = ("replicas", "isr", "leader", "directories")
HASHED: Final = {
    "DeleteTopics": ["responses"],
    "ListPartitionReassignments": ["topics"],
    "ElectLeaders": ["replicaElectionResults", "replicaElectionResults[*].partitionResult"],
    "DescribeAcls": ["resources", "resources[*].acls"],
    "DeleteAcls": ["filterResults[*].matchingAcls"],
    "DescribeDelegationToken": ["tokens"],
}
PRINTED: Final = ("Request Request(", "Cannot remove voter ")  # Messages with an address, or a set in any order.
Free = dict[str, str]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}")
    elif isinstance(value, list):
        for k, each in enumerate(value):
            yield from _leaves(each, f"{path}[{k}]")
    else:
        yield path, value


def free_paths(step: Json, seen: set[str]) -> list[Free]:
    """Paths with why; `seen` are the ids of topics so far."""
    found = [*_of_response(step, seen)]
    placed, names = _placed(step), dict[str, str]()
    for b, batch in enumerate(step["batches"]):
        for k, record in enumerate(batch["records"]):
            path, body = f"batches[{b}].records[{k}].json", record["json"]
            if record["type"] == "TopicRecord":
                names[body["topicId"]] = body["name"]
                seen.add(body["topicId"])
            found += [{"path": f"{path}.{name}", "kind": kind} for name, kind in _of_record(step, record)]
            is_placed = names.get(body.get("topicId")) in placed or (placed and step["api"] == "CreatePartitions")
            if record["type"] == "PartitionRecord" and is_placed:
                found += [{"path": f"{path}.{name}", "kind": "placement"} for name in PLACED if name in body]
    return found


def _placed(step: Json) -> set[str]:
    """Names of topics whose partitions the controller places."""
    topics = (step.get("request") or {}).get("topics") or []
    if step.get("api") == "CreateTopics":
        return {each["name"] for each in topics if not each["assignments"]}
    if step.get("api") == "CreatePartitions":
        return {each["name"] for each in topics if each["assignments"] is None}
    return set()


def _of_response(step: Json, seen: set[str]) -> Iterator[Free]:
    for path, value in _leaves(step.get("response"), "response"):
        last = path.rsplit(".", 1)[-1]
        if last == "errorMessage" and isinstance(value, str) and value.startswith(PRINTED):
            yield {"path": path, "kind": "message"}
        elif last in TIME_FIELDS and value not in (-1, 0):
            yield {"path": path, "kind": "timestamp"}
        elif last in TOKEN_FIELDS and value:
            yield {"path": path, "kind": "token"}
        elif last == "topicId" and step["api"] == "CreateTopics" and value != NO_ID and value not in seen:
            seen.add(value)
            yield {"path": path, "kind": "uuid"}


def _of_record(step: Json, record: Json) -> Iterator[tuple[str, str]]:
    kind, body = record["type"], record["json"]
    if kind == "TopicRecord" or (kind == "PartitionRecord" and step.get("api") == "CreateTopics"):
        yield "topicId", "uuid"
    elif kind in ("AccessControlEntryRecord", "RemoveAccessControlEntryRecord"):
        yield "id", "uuid"
    elif kind == "RegisterControllerRecord" and step.get("api") != "ControllerRegistration":
        yield "incarnationId", "uuid"
    elif kind in ("DelegationTokenRecord", "RemoveDelegationTokenRecord"):
        yield from ((name, "timestamp") for name in body if name in TIME_FIELDS)
        yield from ((name, "token") for name in body if name in TOKEN_FIELDS)


def unordered(step: Json) -> list[str]:
    """Types of records, and lists of the response."""
    kinds = [each["type"] for batch in step["batches"] for each in batch["records"]]
    found = [each for each in ("PartitionChangeRecord", "RemoveAccessControlEntryRecord") if kinds.count(each) > 1]
    api, request, response = step.get("api"), step.get("request") or {}, step.get("response") or {}
    if api in ("AlterConfigs", "IncrementalAlterConfigs") and len(response.get("responses", [])) > 1:
        found += ["ConfigRecord", "response.responses"]  # The hash of a ConfigResource is another in every JVM.
    if api != "ElectLeaders" or request.get("topicPartitions") is None:
        found += [f"response.{name}" for name in HASHED.get(api or "", []) if response.get(name.split("[")[0])]
    return found
