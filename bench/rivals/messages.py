"""Writes the inputs of the group `messages`: kcore's own bytes, which every rival must give back as they are.

`<message>.<version>.small.bin` is the message as it goes over the wire all day long, `<message>.<version>.big.bin` one
of 10,000 partitions in 100 topics. All values follow from counting: nothing is drawn.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import kcore
from kcore.schema import FetchResponse
from kcore.schema.fetch import FetchableTopicResponse, PartitionData
from kcore.types import Uuid

TOPICS: Final = 100
PARTITIONS_A_TOPIC: Final = 100
BROKERS: Final = 100
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
BROKER_EPOCH: Final = (1 << 40) + 380
START_MS: Final = 1_750_000_000_000
RECORDS: Final = bytes(range(200))  # Nobody looks inside: decoders hand them on.


def uuid(number: int) -> Uuid:
    return Uuid(((0x5EED << 112) + number * 0x9E3779B97F4A7C15).to_bytes(16, "big"))


def replicas(number: int, count: int = 3) -> list[int]:
    return [1 + (number + 7 * slot) % BROKERS for slot in range(count)]


def grouped(topics: int, partitions: int, head: Callable[[int], dict[str, Any]], each: Callable[[int], Any]) -> Any:
    """Topics of so many partitions, in Kafka's JSON; `each` is given the partition's index."""
    return [{**head(t), "partitions": [each(p) for p in range(partitions)]} for t in range(topics)]


def by_id(topic: int) -> dict[str, Any]:
    return {"topicId": str(uuid(topic))}


def vote(topics: int, partitions: int) -> dict[str, Any]:
    def each(index: int) -> dict[str, Any]:
        asked = {"replicaDirectoryId": str(uuid(1)), "voterDirectoryId": str(uuid(2))}
        log = {"lastOffsetEpoch": 6, "lastOffset": 123_456, "preVote": True}
        return {"partitionIndex": index, "replicaEpoch": 7, "replicaId": 1, **asked, **log}

    named = grouped(topics, partitions, lambda _: {"topicName": "__cluster_metadata"}, each)
    return {"clusterId": CLUSTER_ID, "voterId": 2, "topics": named}


def heartbeat(topics: int, partitions: int) -> dict[str, Any]:
    wants = {"wantFence": False, "wantShutDown": False}
    return {"brokerId": 1, "brokerEpoch": BROKER_EPOCH, "currentMetadataOffset": 123_456, **wants}


def registration(topics: int, partitions: int) -> dict[str, Any]:
    features = [("group.version", 0, 1), ("metadata.version", 7, 25), ("transaction.version", 0, 2)]
    return {
        **{"brokerId": 1, "clusterId": CLUSTER_ID, "incarnationId": str(uuid(3)), "rack": "rack-1"},
        "listeners": [
            {"name": name, "host": "broker-1.example", "port": 9092, "securityProtocol": 0}
            for name in ("PLAINTEXT", "REPLICATION")
        ],
        "features": [
            {"name": name, "minSupportedVersion": low, "maxSupportedVersion": high} for name, low, high in features
        ],
        **{"isMigratingZkBroker": False, "logDirs": [str(uuid(4))], "previousBrokerEpoch": BROKER_EPOCH - 1},
    }


def fetch(topics: int, partitions: int) -> dict[str, Any]:
    """A follower's. A partition's tagged fields stay unset: only KRaft's own replicas send them (KIP-853, KIP-1166)."""

    def each(index: int) -> dict[str, Any]:
        offsets = {"fetchOffset": 123_456 + index, "lastFetchedEpoch": 5, "logStartOffset": 1000}
        return {"partition": index, "currentLeaderEpoch": 5, **offsets, "partitionMaxBytes": 1 << 20}

    waiting = {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 10 << 20, "isolationLevel": 0}
    session = {"sessionId": 123_456_789, "sessionEpoch": 17, "forgottenTopicsData": [], "rackId": ""}
    state = {"replicaId": 2, "replicaEpoch": BROKER_EPOCH}
    return {"replicaState": state, **waiting, **session, "topics": grouped(topics, partitions, by_id, each)}


def fetched(topics: int, partitions: int) -> Any:
    """The response; as an object, since the records have no JSON form."""

    def each(index: int) -> PartitionData:
        ends = {"high_watermark": 123_456 + index, "last_stable_offset": 123_456 + index, "log_start_offset": 1000}
        return PartitionData(partition_index=index, error_code=0, **ends, aborted_transactions=None, records=RECORDS)

    answers = [
        FetchableTopicResponse(topic_id=uuid(topic), partitions=[each(index) for index in range(partitions)])
        for topic in range(topics)
    ]
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=123_456_789, responses=answers)


def alter_partition(topics: int, partitions: int) -> dict[str, Any]:
    def each(index: int) -> dict[str, Any]:
        isr = [{"brokerId": broker, "brokerEpoch": BROKER_EPOCH + broker} for broker in replicas(index)]
        epochs = {"leaderEpoch": 5, "partitionEpoch": 9}
        return {"partitionIndex": index, "newIsrWithEpochs": isr, "leaderRecoveryState": 0, **epochs}

    return {"brokerId": 1, "brokerEpoch": BROKER_EPOCH, "topics": grouped(topics, partitions, by_id, each)}


def envelope(topics: int, partitions: int) -> Any:
    """A client's CreateTopics, handed on for its principal; as an object, for its bytes."""
    request = kcore.encode(kcore.from_json("CreateTopicsRequest", 7, create_topics(1, 3)), 7)
    principal = b"\0\0\x05User\x06alice\0\0"
    return kcore.schema.EnvelopeRequest(
        request_data=request, request_principal=principal, client_host_address=bytes((192, 0, 2, 7))
    )


def assign(topics: int, partitions: int) -> dict[str, Any]:
    mine = grouped(topics, partitions, by_id, lambda index: {"partitionIndex": index})
    return {"brokerId": 1, "brokerEpoch": BROKER_EPOCH, "directories": [{"id": str(uuid(5)), "topics": mine}]}


def quorum(topics: int, partitions: int) -> dict[str, Any]:
    def state(broker: int) -> dict[str, Any]:
        seen = {"lastFetchTimestamp": START_MS + broker, "lastCaughtUpTimestamp": START_MS}
        return {"replicaId": broker, "replicaDirectoryId": str(uuid(broker)), "logEndOffset": 123_456, **seen}

    def each(index: int) -> dict[str, Any]:
        leader = {"leaderId": 1, "leaderEpoch": 7, "highWatermark": 123_450}
        followers = {"currentVoters": [*map(state, (1, 2, 3))], "observers": [*map(state, (4, 5))]}
        return {"partitionIndex": index, "errorCode": 0, "errorMessage": None, **leader, **followers}

    def node(broker: int) -> dict[str, Any]:
        listener = {"name": "CONTROLLER", "host": f"controller-{broker}.example", "port": 9093}
        return {"nodeId": broker, "listeners": [listener]}

    named = grouped(topics, partitions, lambda topic: {"topicName": f"__cluster_metadata-{topic}"}, each)
    return {"errorCode": 0, "errorMessage": None, "topics": named, "nodes": [*map(node, (1, 2, 3))]}


def metadata(topics: int, partitions: int) -> dict[str, Any]:
    def head(topic: int) -> dict[str, Any]:
        return {"errorCode": 0, "name": f"topic-{topic:05d}", **by_id(topic), "isInternal": False, **operations}

    def each(index: int) -> dict[str, Any]:
        mine = replicas(index)
        where = {"leaderId": mine[0], "leaderEpoch": 5, "replicaNodes": mine, "isrNodes": mine, "offlineReplicas": []}
        return {"errorCode": 0, "partitionIndex": index, **where}

    operations = {"topicAuthorizedOperations": -(1 << 31)}
    brokers = [
        {"nodeId": broker, "host": f"broker-{broker}.example", "port": 9092, "rack": f"rack-{broker % 3}"}
        for broker in range(1, BROKERS + 1)
    ]
    cluster = {"throttleTimeMs": 0, "brokers": brokers, "clusterId": CLUSTER_ID, "controllerId": 1, "errorCode": 0}
    return {**cluster, "topics": grouped(topics, partitions, head, each)}


def create_topics(topics: int, partitions: int) -> dict[str, Any]:
    def topic(number: int) -> dict[str, Any]:
        assignments = [{"partitionIndex": index, "brokerIds": replicas(index)} for index in range(partitions)]
        configs = [{"name": "min.insync.replicas", "value": "2"}]
        head = {"name": f"topic-{number:05d}", "numPartitions": -1, "replicationFactor": -1}
        return {**head, "assignments": assignments, "configs": configs}

    return {"topics": [*map(topic, range(topics))], "timeoutMs": 30_000, "validateOnly": False}


def stop_replica(topics: int, partitions: int) -> dict[str, Any]:
    def topic(number: int) -> dict[str, Any]:
        states = [{"partitionIndex": p, "leaderEpoch": 5, "deletePartition": p % 2 == 0} for p in range(partitions)]
        return {"topicName": f"topic-{number:05d}", "partitionStates": states}

    head = {"controllerId": 1, "isKRaftController": False, "controllerEpoch": 7, "brokerEpoch": BROKER_EPOCH}
    return {**head, "topicStates": [*map(topic, range(topics))]}


SMALL: Final[dict[str, tuple[Callable[[int, int], Any], int, int]]] = {
    "VoteRequest": (vote, 1, 1),
    "BrokerHeartbeatRequest": (heartbeat, 0, 0),
    "BrokerRegistrationRequest": (registration, 0, 0),
    "FetchRequest": (fetch, 1, 3),
    "FetchResponse": (fetched, 1, 3),
    "AlterPartitionRequest": (alter_partition, 1, 1),
    "EnvelopeRequest": (envelope, 1, 3),
    "AssignReplicasToDirsRequest": (assign, 1, 3),
    "DescribeQuorumResponse": (quorum, 1, 1),
}
"""The function that makes each message, its topics, and its partitions a topic."""

BIG: Final[dict[str, Callable[[int, int], Any]]] = {
    "MetadataResponse": metadata,
    "FetchRequest": fetch,
    "FetchResponse": fetched,
    "AlterPartitionRequest": alter_partition,
    "AssignReplicasToDirsRequest": assign,
    "CreateTopicsRequest": create_topics,
    "DescribeQuorumResponse": quorum,
    "StopReplicaRequest": stop_replica,
}


def small_bytes(message: str) -> tuple[int, bytes]:
    """The newest version and the small message in it."""
    make, topics, partitions = SMALL[message]
    return _encoded(message, make(topics, partitions))


def _encoded(message: str, made: Any) -> tuple[int, bytes]:
    version = kcore.schema.message_class(message).versions.highest
    whole = kcore.from_json(message, version, made) if isinstance(made, dict) else made
    return version, bytes(kcore.encode(whole, version))


def write(directory: Path) -> None:
    """Write all inputs of the group."""
    for message in SMALL:
        version, data = small_bytes(message)
        (directory / f"{message}.{version}.small.bin").write_bytes(data)
    for message, make in BIG.items():
        version, data = _encoded(message, make(TOPICS, PARTITIONS_A_TOPIC))
        (directory / f"{message}.{version}.big.bin").write_bytes(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    write(parser.parse_args().directory)
