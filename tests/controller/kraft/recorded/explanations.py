"""Which departure of kcore's explains a difference between a recorded step and kcore's: narrowly, or none."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from controller.kraft.recorded.differences import RENOUNCED, Difference
from controller.kraft.recorded.story_wire import Json
from kcore.controller.kraft import departures
from kcore.protocol_errors import Errors

FILTER_CODES: Final = {"resourceType": {1}, "resourcePatternType": {1, 2}, "operation": {1}, "permissionType": {1}}
TOO_LARGE: Final = (
    "Excessively large number of partitions per request.",
    "Unable to perform excessively large batch operation.",
)
AT_STANDBYS: Final = {Errors.NONE, Errors.NOT_CONTROLLER}
CHECKED_FIRST: Final = {  # By ControllerApis and AclApis, before they call the controller.
    *(Errors.CLUSTER_AUTHORIZATION_FAILED, Errors.TOPIC_AUTHORIZATION_FAILED, Errors.GROUP_AUTHORIZATION_FAILED),
    *(Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED, Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    *(Errors.INVALID_REQUEST, Errors.UNSUPPORTED_VERSION, Errors.INVALID_CONFIG, Errors.SECURITY_DISABLED),
    *(Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID, Errors.TOPIC_DELETION_DISABLED),
}
UNEXPECTED: Final = ("CreateAcls", "DescribeDelegationToken")  # As ACLS_FAIL_TOGETHER; not served.
TOPIC: Final = 2  # ConfigResource.Type
FENCED_WITH: Final = {"BrokerRegistrationChangeRecord", "PartitionChangeRecord", "NoOpRecord"}
Explains = Callable[[Difference, Json, Json], bool]


def explanation(difference: Difference, story: Json, kafka_way: frozenset[str]) -> str | None:
    """The name of a departure that is not switched back to Kafka's way."""
    if difference.step < 0:
        return None
    step = story["steps"][difference.step]
    for name, explains in EXPLANATIONS.items():
        if name not in kafka_way and explains(difference, story, step):
            return name
    return None


def unexplained(differences: list[Difference], story: Json, kafka_way: frozenset[str]) -> list[Difference]:
    """Those that no departure explains."""
    return [each for each in differences if explanation(each, story, kafka_way) is None]


# The subject of a difference.


def _records(side: Any) -> list[Json]:
    """The records of batches without offsets, and without control records."""
    flat = [each for batch in side or [] for each in batch["records"]] if _has_batches(side) else list(side or [])
    return [{key: value for key, value in each.items() if key != "offset"} for each in flat if _is_metadata(each)]


def _has_batches(side: Any) -> bool:
    return bool(side) and "records" in side[0]


def _is_metadata(record: Json) -> bool:
    return record["type"] not in ("LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord")


def _is_response(difference: Difference) -> bool:
    return difference.what == "response" and difference.expected is not None and difference.found is not None


def codes(node: Any) -> Iterator[int]:
    """Every error code in a response."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "errorCode":
                yield value
            else:
                yield from codes(value)
    elif isinstance(node, list):
        for each in node:
            yield from codes(each)


def _fails_well(difference: Difference, step: Json, error: Errors) -> bool:
    """Kafka fell over; kcore answers with that error everywhere, and writes nothing."""
    if not step.get("renounced"):
        return False
    if difference.what == RENOUNCED:
        return not difference.found
    if difference.what == "response":
        return {*codes(difference.found)} - {Errors.NONE} == {error} and Errors.UNKNOWN_SERVER_ERROR in codes(
            difference.expected
        )
    return False


# Departures, one by one.


def _config_operation(difference: Difference, story: Json, step: Json) -> bool:
    if step["kind"] != "request" or step["api"] != "IncrementalAlterConfigs":
        return False
    asked = [config["configOperation"] for each in step["request"]["resources"] for config in each["configs"]]
    return not {*asked} <= {0, 1, 2, 3} and _fails_well(difference, step, Errors.INVALID_REQUEST)


def _recovery_state(difference: Difference, story: Json, step: Json) -> bool:
    if step["kind"] != "request" or step["api"] != "AlterPartition":
        return False
    asked = [each["leaderRecoveryState"] for topic in step["request"]["topics"] for each in topic["partitions"]]
    return not {*asked} <= {0, 1} and _fails_well(difference, step, Errors.INVALID_REQUEST)


def _stale_eligible(difference: Difference, story: Json, step: Json) -> bool:
    """A change that Kafka wrote twice, behind a ClearElrRecord; or it fell over, behind the deletion of a topic."""
    if step["kind"] != "request" or step["api"] not in ("BrokerHeartbeat", "BrokerRegistration", "UnregisterBroker"):
        return False
    if step.get("renounced"):
        return _wrote(story, difference.step, "RemoveTopicRecord") and Errors.UNKNOWN_SERVER_ERROR in codes(
            step["response"]
        )
    if difference.what == "response" or not _wrote(story, difference.step, "ClearElrRecord"):
        return False
    once: list[Json] = []
    for each in _records(difference.expected):
        if each["type"] != "PartitionChangeRecord" or each not in once:
            once.append(each)
    return once == _records(difference.found)


def _wrote(story: Json, place: int, kind: str) -> bool:
    """Whether an earlier step has such a record."""
    return any(
        each["type"] == kind
        for step in story["steps"][:place]
        for batch in step["batches"]
        for each in batch["records"]
    )


def _aborted_records(difference: Difference, story: Json, step: Json) -> bool:
    """Kafka's snapshot has topics of transactions that were left over and aborted, and all that kcore's has."""
    left = [record for each in story["steps"][: difference.step] for record in _records(each.get("leftover"))]
    topics = [each["json"] for each in left if each["type"] == "TopicRecord"]
    surplus = _surplus(difference)
    return bool(surplus) and all(each["type"] == "TopicRecord" and each["json"] in topics for each in surplus)


def _deleted_topics_settings(difference: Difference, story: Json, step: Json) -> bool:
    """Kafka's snapshot has settings of topics that were deleted, and all that kcore's has."""
    surplus = _surplus(difference)
    return (
        bool(surplus)
        and all(each["type"] == "ConfigRecord" and each["json"]["resourceType"] == TOPIC for each in surplus)
        and _wrote(story, difference.step, "RemoveTopicRecord")
        and not {each["json"]["resourceName"] for each in surplus} & _topics_of(difference.found)
    )


def _lost_scram(difference: Difference, story: Json, step: Json) -> bool:
    """Kafka's snapshot lacks SCRAM credentials, and nothing else."""
    if difference.what != "snapshot":
        return False
    missing = [each for each in difference.found["records"] if each not in difference.expected["records"]]
    rest = [each for each in difference.found["records"] if each not in missing]
    return (
        bool(missing)
        and all(each["type"] == "UserScramCredentialRecord" for each in missing)
        and rest == difference.expected["records"]
    )


def _topics_of(snapshot: Json) -> set[str]:
    return {each["json"]["name"] for each in snapshot["records"] if each["type"] == "TopicRecord"}


def _surplus(difference: Difference) -> list[Json]:
    """The records that only Kafka's snapshot has; empty if it lacks a record of kcore's."""
    if difference.what != "snapshot":
        return []
    rest = list(difference.expected["records"])
    for each in difference.found["records"]:
        if each not in rest:
            return []
        rest.remove(each)
    return rest


def _standbys(difference: Difference, story: Json, step: Json) -> bool:
    """A standby answers NOT_CONTROLLER where Kafka's has another error, for a part of the request at least.

    Or none at all: then the request asks for nothing.
    """
    if step["kind"] != "request" or "node" not in step:
        return False
    errors = {*codes(step["response"])}
    found = CHECKED_FIRST | ({Errors.UNKNOWN_SERVER_ERROR} if step["api"] in UNEXPECTED else set())
    if errors != {Errors.NONE} and not (errors & found and errors <= found | AT_STANDBYS):
        return False
    if difference.what == "envelopeError":
        return bool(difference.found == Errors.NOT_CONTROLLER)
    if difference.what != "response":
        return False
    return difference.found is None or {*codes(difference.found)} - {Errors.NONE} == {Errors.NOT_CONTROLLER}


def _leaders_named(difference: Difference, story: Json, step: Json) -> bool:
    """A standby names the leader in DescribeQuorum, or says that it does not lead: nothing else differs."""
    if step["kind"] != "request" or "node" not in step or not _is_response(difference):
        return False
    if Errors.NOT_LEADER_OR_FOLLOWER not in codes(step["response"]):
        return False
    return _without_leader(difference.expected) == _without_leader(difference.found)


def _without_leader(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_leader(each) for each in node]
    if isinstance(node, dict):
        kept = {*node} - ({"leaderId", "leaderEpoch"} if "currentVoters" in node else {"errorMessage"})
        return {key: _without_leader(node[key]) for key in kept}
    return node


def _record_limits(difference: Difference, story: Json, step: Json) -> bool:
    if step["kind"] != "request" or not any(text in str(step["response"]) for text in TOO_LARGE):
        return False
    if not _is_response(difference):
        return len(_records(difference.found)) > len(_records(difference.expected))
    return Errors.POLICY_VIOLATION in codes(difference.expected)


def _clean_bounce(difference: Difference, story: Json, step: Json) -> bool:
    """The broker had begun to shut down, and was fenced: told that it may stop, or at its own wish."""
    if step["kind"] != "request" or step["api"] != "BrokerRegistration":
        return False
    if step["response"]["errorCode"] != Errors.DUPLICATE_BROKER_REGISTRATION:
        return False
    if not _may_stop(story, difference.step, step["request"]["brokerId"]):
        return False
    if _is_response(difference):
        return difference.found["errorCode"] == Errors.NONE
    wanted, found = _records(difference.expected), _records(difference.found)
    return not wanted and {each["type"] for each in found} <= {"RegisterBrokerRecord", "PartitionChangeRecord"}


def _may_stop(story: Json, place: int, broker_id: int) -> bool:
    accepted = [
        step
        for step in story["steps"][:place]
        if (step.get("request") or {}).get("brokerId") == broker_id
        and (step.get("response") or {"errorCode": 1}).get("errorCode") == Errors.NONE
    ]
    epochs = [each["response"]["brokerEpoch"] for each in accepted if each["api"] == "BrokerRegistration"]
    return any(
        each["request"]["wantShutDown"] or each["response"]["shouldShutDown"]
        for each in accepted
        if each["api"] == "BrokerHeartbeat" and each["request"]["brokerEpoch"] == epochs[-1]
    )


def _fences_one_by_one(difference: Difference, story: Json, step: Json) -> bool:
    """The same brokers are fenced, two at least, and nothing differs but what becomes of partitions."""
    if step["kind"] != "advance":
        return False
    wanted, found = (
        sorted(each["json"]["brokerId"] for each in _records(side) if each["type"] == "BrokerRegistrationChangeRecord")
        for side in (difference.expected, difference.found)
    )
    kinds = {each["type"] for side in (difference.expected, difference.found) for each in _records(side)}
    return len(wanted) > 1 and wanted == found and kinds <= FENCED_WITH


def _acls_fail_together(difference: Difference, story: Json, step: Json) -> bool:
    if step["kind"] != "request" or step["api"] != "CreateAcls" or not step["response"]:
        return False
    if {*codes(step["response"])} != {Errors.UNKNOWN_SERVER_ERROR}:
        return False
    if not _is_response(difference):
        return {each["type"] for each in _records(difference.found)} == {"AccessControlEntryRecord"}
    rows = step["request"]["creations"]
    of_filters = [any(row.get(name) in wrong for name, wrong in FILTER_CODES.items()) for row in rows]
    answers = [each["errorCode"] for each in difference.found["results"]]
    refused = [answer == Errors.INVALID_REQUEST for answer in answers]
    return any(of_filters) and all(there for there, wrong in zip(refused, of_filters, strict=True) if wrong)


def _refused_partitions(difference: Difference, story: Json, step: Json) -> bool:
    if step["kind"] != "request" or step["api"] != "CreatePartitions" or difference.what == "response":
        return False
    wanted, found = _records(difference.expected), _records(difference.found)
    more = [each for each in wanted if each not in found]
    return (
        Errors.INVALID_REPLICATION_FACTOR in codes(step["response"])
        and bool(more)
        and all(each["type"] == "PartitionRecord" for each in more)
        and all(each in wanted for each in found)
    )


def _earlier_moves(difference: Difference, story: Json, step: Json) -> bool:
    """Nothing differs but changes of partitions that were being moved already, and that the request moves elsewhere."""
    if step["kind"] != "request" or step["api"] != "AlterPartitionReassignments" or difference.what == "response":
        return False
    wanted, found = _records(difference.expected), _records(difference.found)
    changed = [each for each in wanted if each not in found] + [each for each in found if each not in wanted]
    moving = _moved_again(story, difference.step)
    return bool(changed) and all(
        each["type"] == "PartitionChangeRecord" and each["json"]["partitionId"] in moving for each in changed
    )


def _moved_again(story: Json, place: int) -> set[int]:
    """The indexes of the partitions that a step's request moves while they are moved."""
    ids: dict[str, str] = {}
    moves: dict[tuple[str, int], dict[str, list[int]]] = {}
    for before in story["steps"][:place]:
        for record in _records(before["batches"]):
            value = record["json"]
            if record["type"] == "TopicRecord":
                ids[value["name"]] = value["topicId"]
            elif record["type"] in ("PartitionRecord", "PartitionChangeRecord"):
                move = moves.setdefault((value["topicId"], value["partitionId"]), {})
                lists = {name: value.get(name) for name in ("addingReplicas", "removingReplicas")}
                move |= {name: each for name, each in lists.items() if each is not None}
    return {
        partition["partitionIndex"]
        for topic in story["steps"][place]["request"]["topics"]
        for partition in topic["partitions"]
        if partition["replicas"] is not None
        and any(moves.get((ids.get(topic["name"], ""), partition["partitionIndex"]), {}).values())
    }


def _removed_voters(difference: Difference, story: Json, step: Json) -> bool:
    """Kafka refuses a feature because of a controller that is registered and no voter, and looks at nothing else."""
    if step["kind"] != "request" or step["api"] != "UpdateFeatures":
        return False
    said = (step["response"] or {}).get("errorMessage") or ""
    return re.search(r"Controller -?\d+ (does not support|only supports)", said) is not None


def _offline_leaders(difference: Difference, story: Json, step: Json) -> bool:
    """An assignment brings a replica online, and kcore elects it at once: nothing else differs."""
    if step["kind"] != "request" or step["api"] != "AssignReplicasToDirs" or difference.what == "response":
        return False
    wanted, found = _records(difference.expected), _records(difference.found)
    waiting = [{**each, "json": {**each["json"]}} for each in found]
    for each, record in zip(waiting, wanted, strict=False):
        if "leader" not in record["json"]:
            each["json"].pop("leader", None)
    return bool(wanted) and waiting == wanted


EXPLANATIONS: Final[dict[str, Explains]] = {
    departures.REMOVED_VOTERS: _removed_voters,
    departures.CONFIG_OPERATION: _config_operation,
    departures.RECOVERY_STATE: _recovery_state,
    departures.OFFLINE_LEADERS: _offline_leaders,
    departures.STALE_ELIGIBLE: _stale_eligible,
    departures.ABORTED_RECORDS: _aborted_records,
    departures.DELETED_SETTINGS: _deleted_topics_settings,
    departures.LOST_SCRAM: _lost_scram,
    departures.STANDBYS: _standbys,
    departures.LEADERS_NAMED: _leaders_named,
    departures.RECORD_LIMITS: _record_limits,
    departures.CLEAN_BOUNCE_WAITS: _clean_bounce,
    departures.FENCES_ONE_BY_ONE: _fences_one_by_one,
    departures.ACLS_FAIL_TOGETHER: _acls_fail_together,
    departures.REFUSED_PARTITIONS_STAY: _refused_partitions,
    departures.EARLIER_MOVES: _earlier_moves,
}
"""The others show in no story, or (refused-kraft-version) are raft's: there the run does as Kafka's log says."""
