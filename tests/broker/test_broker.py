"""A broker applies new control requests, and refuses stale ones with their error."""

from typing import Any

import pytest

import kcore
from kcore.broker.zk_control.broker import Broker
from kcore.errors import DecodeError
from kcore.protocol_errors import Errors
from kcore.schema import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from kcore.schema.structure import Message
from kcore.types import ZERO_UUID, Uuid

OWN_EPOCH = 219
A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
REQUESTS = [
    (message, version)
    for message in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)
    for version in range(message.versions.highest + 1)
]
EPOCH_SINCE = {LeaderAndIsrRequest: 2, UpdateMetadataRequest: 5, StopReplicaRequest: 1}
ALL = {"LeaderAndIsrRequest": 7, "UpdateMetadataRequest": 8, "StopReplicaRequest": 4}


def request(message: str, *, broker_epoch: int = OWN_EPOCH, controller_epoch: int = 5, **fields: Any) -> bytes:
    """A request of the newest version about partition t-0, led by 1 in epoch 3 by default."""
    state = {"partitionIndex": 0}
    if message != "StopReplicaRequest":
        state |= {"controllerEpoch": 5, "leader": 1, "leaderEpoch": 3, "isr": [1, 2], "replicas": [1, 2]}
    states = {
        "LeaderAndIsrRequest": state | {"partitionEpoch": 4, "addingReplicas": [], "removingReplicas": []},
        "UpdateMetadataRequest": state | {"zkVersion": 4, "offlineReplicas": []},
        "StopReplicaRequest": state | {"leaderEpoch": 3, "deletePartition": True},
    }
    defaults = {"isNew": False, "leaderRecoveryState": 0} if message == "LeaderAndIsrRequest" else {}
    topic_id, name, type_ = fields.pop("topicId", A), fields.pop("topic", "t"), fields.pop("type_", 0)
    is_kraft = fields.pop("is_kraft", False)
    topic = {"topicName": name, "partitionStates": [states[message] | defaults | fields]}
    if message != "StopReplicaRequest":
        topic["topicId"] = str(topic_id)
    body = {
        "controllerId": 9,
        "isKRaftController": is_kraft,
        "controllerEpoch": controller_epoch,
        "brokerEpoch": broker_epoch,
        "topicStates": [topic],
    }
    if message == "LeaderAndIsrRequest":
        body |= {"type": type_, "liveLeaders": []}
    if message == "UpdateMetadataRequest":
        body |= {"type": type_, "liveBrokers": [{"id": 1, "endpoints": [], "rack": None}]}
    version = ALL[message]
    return kcore.encode(kcore.from_json(message, version, body), version)


def answer(broker: Broker, message: str, **fields: Any) -> Any:
    """The decoded response."""
    made = request(message, **fields)
    classes = {each.__name__: each for each in EPOCH_SINCE}
    response = broker.answer(classes[message], ALL[message], made)
    return kcore.decode(message.replace("Request", "Response"), ALL[message], response)


def codes(response: Any) -> list[int]:
    """The partitions' error codes."""
    lists = [topic.partition_errors for topic in response.topics] if hasattr(response, "topics") else []
    lists += [getattr(response, "partition_errors", [])]
    return [error.error_code for errors in lists for error in errors]


KRAFT_EPOCH = 40  # By the metadata log, while the broker's znode has OWN_EPOCH.


@pytest.mark.parametrize("message", ALL)
@pytest.mark.parametrize(("epoch", "error"), [(39, 77), (-2, 77), (40, 0), (41, 0), (-1, 0), (OWN_EPOCH, 0)])
def test_the_broker_epochs_of_a_kraft_controller(message: str, epoch: int, error: int) -> None:
    """While the broker migrates they are those of its registration with the quorum (KIP-866)."""
    broker = Broker(1, OWN_EPOCH)
    broker.kraft_broker_epoch = lambda: KRAFT_EPOCH
    assert answer(broker, message, broker_epoch=epoch, is_kraft=True).error_code == error
    assert broker.is_kraft is (error == 0)
    assert answer(broker, message, broker_epoch=KRAFT_EPOCH).error_code == 77, "of a controller in ZooKeeper mode"


@pytest.mark.parametrize("message", ALL)
def test_a_broker_that_does_not_migrate_refuses_a_kraft_controller(message: str) -> None:
    broker = Broker(1, OWN_EPOCH)
    assert answer(broker, message, broker_epoch=-1, is_kraft=True).error_code == Errors.NOT_CONTROLLER
    assert (broker.controller_epoch, broker.is_kraft) == (0, False)


@pytest.mark.covers("E27")
@pytest.mark.parametrize(("type_", "topics"), [(2, ["u"]), (1, ["t", "u"]), (0, ["t", "u"])])
def test_a_full_update_metadata_of_a_kraft_controller_lists_all_topics(type_: int, topics: list[str]) -> None:
    """Topics deleted while the broker was offline are removed (ZkMetadataCache.updateMetadata)."""
    broker = Broker(1, OWN_EPOCH)
    broker.kraft_broker_epoch = lambda: KRAFT_EPOCH
    assert answer(broker, "UpdateMetadataRequest", broker_epoch=-1, is_kraft=True).error_code == 0
    result = {"broker_epoch": -1, "is_kraft": True, "type_": type_, "topic": "u", "topicId": B}
    assert answer(broker, "UpdateMetadataRequest", **result).error_code == 0
    table = broker.table
    assert sorted({table.topics.names[row] for row in table.topic_row__p.tolist()}) == topics


@pytest.mark.covers("E27")
@pytest.mark.parametrize(("type_", "error"), [(2, 0), (1, 103)])
def test_a_full_leader_and_isr_of_a_kraft_controller_makes_a_topic_anew(type_: int, error: int) -> None:
    """The topic was created again while the broker was offline (LogManager.findStrayReplicas)."""
    broker = Broker(1, OWN_EPOCH)
    broker.kraft_broker_epoch = lambda: KRAFT_EPOCH
    assert codes(answer(broker, "LeaderAndIsrRequest")) == [0]
    result = {"broker_epoch": -1, "is_kraft": True, "type_": type_, "topicId": B, "leaderEpoch": 0}
    assert codes(answer(broker, "LeaderAndIsrRequest", **result)) == [error]
    assert broker.replicas["t", 0].topic_id == (A if error else B)


@pytest.mark.parametrize(("is_kraft", "error"), [(True, 0), (False, 11)])
def test_an_equal_leader_epoch_is_new_of_a_kraft_controller_alone(is_kraft: bool, error: int) -> None:
    """It changes the ISR without another leader epoch (ReplicaManager.becomeLeaderOrFollower of 3.9.1)."""
    broker = Broker(1, OWN_EPOCH)
    broker.kraft_broker_epoch = lambda: KRAFT_EPOCH
    result = {"broker_epoch": -1, "is_kraft": is_kraft}
    assert codes(answer(broker, "LeaderAndIsrRequest", **result)) == [0]
    assert codes(answer(broker, "LeaderAndIsrRequest", isr=[1], partitionEpoch=5, **result)) == [error]
    assert broker.replicas["t", 0].isr == ((1,) if is_kraft else (1, 2))
    assert codes(answer(broker, "LeaderAndIsrRequest", leaderEpoch=2, partitionEpoch=6, **result)) == [11]


@pytest.mark.covers("A5", "A1", "assumption 1")
@pytest.mark.parametrize("message", ALL)
@pytest.mark.parametrize(("epoch", "error"), [(218, 77), (72, 77), (0, 77), (-2, 77), (219, 0), (1219, 0), (-1, 0)])
def test_broker_epochs(message: str, epoch: int, error: int) -> None:
    broker = Broker(1, OWN_EPOCH)
    assert answer(broker, message, broker_epoch=epoch).error_code == error
    assert broker.controller_epoch == (0 if error else 5)
    assert bool(broker.replicas) == (message == "LeaderAndIsrRequest" and not error)
    assert bool(len(broker.table)) == (message == "UpdateMetadataRequest" and not error)


@pytest.mark.covers("assumption 1")
@pytest.mark.parametrize("message", ALL)
def test_controller_epochs(message: str) -> None:
    broker = Broker(1, OWN_EPOCH)
    assert answer(broker, message, controller_epoch=5).error_code == 0
    assert answer(broker, message, controller_epoch=4, leaderEpoch=9).error_code == 11
    assert all(replica.leader_epoch == 3 for replica in broker.replicas.values())
    assert answer(broker, message, controller_epoch=5).error_code == 0
    assert answer(broker, message, controller_epoch=6).error_code == 0
    assert broker.controller_epoch == 6


@pytest.mark.parametrize(("epochs", "error"), [({"broker_epoch": 7}, 77), ({"controller_epoch": 4}, 11)])
def test_a_refused_leader_and_isr_says_so_of_every_partition(epochs: dict[str, int], error: int) -> None:
    broker = Broker(1, OWN_EPOCH)
    broker.controller_epoch = 5
    assert codes(answer(broker, "LeaderAndIsrRequest", **epochs)) == [error]
    assert codes(answer(broker, "StopReplicaRequest", **epochs)) == []


@pytest.mark.covers("A11")
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"leaderEpoch": 4, "leader": 2}, 0),
        ({"leaderEpoch": 3, "leader": 2}, 11),  # A repeated request: the leader epoch is not new.
        ({"leaderEpoch": 2}, 11),
        ({"leaderEpoch": 4, "topicId": B}, 103),
        ({"leaderEpoch": 2, "topicId": B}, 103),  # The id is checked first.
        ({"leaderEpoch": 4, "replicas": [2, 3]}, 3),
        ({"leaderEpoch": 2, "replicas": [2, 3]}, 11),
    ],
)
def test_a_partition_that_is_held(fields: dict[str, Any], error: int) -> None:
    broker = Broker(1, OWN_EPOCH)
    assert codes(answer(broker, "LeaderAndIsrRequest")) == [0]
    held = broker.replicas["t", 0]
    response = answer(broker, "LeaderAndIsrRequest", **fields)
    assert (response.error_code, codes(response)) == (0, [error])
    assert response.topics[0].topic_id == fields.get("topicId", A)
    assert (broker.replicas["t", 0] == held) == bool(error)
    assert broker.replicas["t", 0].leader_epoch == (3 if error else 4)


def test_a_partition_of_others() -> None:
    broker = Broker(3, OWN_EPOCH)
    assert codes(answer(broker, "LeaderAndIsrRequest")) == [3]
    assert not broker.replicas


@pytest.mark.covers("A11")
def test_topic_ids_come_and_go_without_a_new_leader_epoch() -> None:
    broker = Broker(2, OWN_EPOCH)
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=ZERO_UUID)) == [0]
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=ZERO_UUID)) == [11]
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=A)) == [0]
    assert broker.replicas["t", 0].topic_id == A
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=A)) == [11]
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=ZERO_UUID)) == [0], "a follower stops fetching by id"
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=ZERO_UUID, leader=2)) == [11]
    assert codes(answer(broker, "LeaderAndIsrRequest", topicId=ZERO_UUID, leaderEpoch=4)) == [0]
    assert broker.replicas["t", 0].topic_id == A, "the log keeps its id"


@pytest.mark.covers("A6")
@pytest.mark.parametrize(("epoch", "error"), [(2, 74), (3, 0), (4, 0), (-1, 0), (-2, 0), (-3, 74)])
@pytest.mark.parametrize("delete", [False, True])
def test_stop_replica(epoch: int, error: int, delete: bool) -> None:
    broker = Broker(1, OWN_EPOCH)
    answer(broker, "LeaderAndIsrRequest")
    response = answer(broker, "StopReplicaRequest", leaderEpoch=epoch, deletePartition=delete)
    assert (response.error_code, codes(response)) == (0, [error])
    assert [replica.stopped for replica in broker.replicas.values()] == ([False] if error else [] if delete else [True])


def test_a_stopped_replica_keeps_its_leader_epoch() -> None:
    broker = Broker(1, OWN_EPOCH)
    answer(broker, "LeaderAndIsrRequest")
    answer(broker, "StopReplicaRequest", deletePartition=False)
    assert codes(answer(broker, "LeaderAndIsrRequest")) == [11]
    assert broker.replicas["t", 0].stopped
    assert codes(answer(broker, "LeaderAndIsrRequest", leaderEpoch=4)) == [0]
    assert not broker.replicas["t", 0].stopped


def test_stopping_what_is_not_there() -> None:
    assert codes(answer(Broker(1, OWN_EPOCH), "StopReplicaRequest")) == [0]


@pytest.mark.parametrize(("message", "version"), REQUESTS, ids=str)
@pytest.mark.parametrize("broker_epoch", [OWN_EPOCH, OWN_EPOCH - 1])
def test_every_version_is_answered_in_kind(message: type[Message], version: int, broker_epoch: int) -> None:
    newest = kcore.decode_columns(message, ALL[message.__name__], request(message.__name__, broker_epoch=broker_epoch))
    if message is StopReplicaRequest and version < 3:
        newest.topic_states.partition_states._columns.pop("delete_partition")
        newest.topic_states.partition_states._columns.pop("leader_epoch")
    data = kcore.encode_columns(newest, version)
    name = message.__name__.replace("Request", "Response")
    response = kcore.decode(name, version, Broker(1, OWN_EPOCH).answer(message, version, data))
    refused = broker_epoch < OWN_EPOCH and version >= EPOCH_SINCE[message]
    assert response.error_code == (77 if refused else 0)
    with pytest.raises(DecodeError):
        Broker(1, OWN_EPOCH).answer(message, version, data[:-1])
