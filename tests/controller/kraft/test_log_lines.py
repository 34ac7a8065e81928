"""The active controller logs one line per event, not one line per partition."""

from typing import Any

import pytest

from controller.kraft.broker_clusters import (
    BEGIN_MS,
    SESSION_MS,
    a_cluster,
    a_heartbeat,
    a_registration,
    a_topic,
    ask,
    look,
    put,
    take_effect,
    uuid,
)
from controller.kraft.contexts import notice_of
from controller.kraft.runtime import Stage, controller_of
from kcore.controller.kraft.brokers.records import SHUT_DOWN_AT_ONCE
from kcore.controller.kraft.decision import Decision, Versioned
from kcore.controller.kraft.kraft_context import ControllerContext, RequestInfo
from kcore.controller.kraft.log_lines import ALL_CORDONED, Notices
from kcore.controller.kraft.outputs import RequestAnswer
from kcore.protocol_errors import Errors
from kcore.schema import alter_partition as isrs
from kcore.schema import partitions as schema
from kcore.schema.cluster_metadata import DescribeClusterRequest
from kcore.schema.metadata_records_brokers import (
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)
from kcore.schema.metadata_records_settings import ConfigRecord
from kcore.schema.structure import Message
from kcore.schema.topics import DeleteTopicsRequest, DeleteTopicState
from kcore.steps import finished
from kcore.types import Uuid

TOPIC_CONFIG = 2


class Log:
    """The lines of a controller in front of a cluster."""

    def __init__(self, context: ControllerContext) -> None:
        self.context, self.notices = context, Notices()

    def of(self, decision: Decision | None, request: Message | None = None, now_ms: int = BEGIN_MS) -> list[str]:
        """The notice of a decision, which is then applied."""
        assert decision is not None
        notice = notice_of(self.context.image, decision, request)
        take_effect(self.context, decision, now_ms)
        return self.notices.committed(notice, now_ms)

    def asked(self, request: Message, now_ms: int = BEGIN_MS) -> list[str]:
        return self.of(ask(self.context, request, now_ms), request, now_ms)


@pytest.fixture
def log() -> Log:
    """Three brokers, and a topic of 20,000 partitions that broker 1 leads."""
    context = a_cluster((1, 2, 3, 4), level=30)
    a_topic(context, 20_000, [1, 2, 3])
    return Log(context)


def beat(log: Log, broker_id: int, **given: Any) -> list[str]:
    return log.asked(a_heartbeat(log.context, broker_id, **given))


def moved(log: Log, partitions: range, replicas: list[int] | None) -> list[str]:
    found = [schema.ReassignablePartition(partition_index=each, replicas=replicas) for each in partitions]
    topics = [schema.ReassignableTopic(name="topic-1", partitions=found)]
    return log.asked(schema.AlterPartitionReassignmentsRequest(topics=topics))


def in_sync(log: Log, partition: int, members: list[int], now_ms: int) -> list[str]:
    """Partition after partition of it: as leaders ask for it when followers catch up one by one."""
    table = log.context.image.table
    states = [isrs.BrokerState(broker_id=each, broker_epoch=log.context.image.brokers[each].epoch) for each in members]
    data = isrs.AlterPartitionRequestPartitionData(
        partition_index=partition,
        leader_epoch=int(table.leader_epoch__p[partition]),
        partition_epoch=int(table.partition_epoch__p[partition]),
        new_isr_with_epochs=states,
    )
    leader = log.context.image.brokers[1]
    topic = isrs.AlterPartitionRequestTopicData(topic_id=uuid(5001), partitions=[data])
    return log.asked(isrs.AlterPartitionRequest(broker_id=1, broker_epoch=leader.epoch, topics=[topic]), now_ms)


def test_a_broker_comes_and_goes(log: Log) -> None:
    assert log.asked(a_registration(5, 5)) == [f"broker 5 registered, incarnation {uuid(5)}"]
    assert beat(log, 5) == ["broker 5 unfenced"]
    assert beat(log, 5, cordoned_log_dirs=[]) == [], "none are, as before"
    assert beat(log, 5, cordoned_log_dirs=[uuid(1005)]) == ["broker 5 has 1 cordoned log directories"]
    assert beat(log, 5, want_shut_down=True) == ["broker 5 fenced: it has shut down"]


def test_a_controller_comes_and_goes(log: Log) -> None:
    registered = RegisterControllerRecord(controller_id=7, incarnation_id=uuid(7))
    assert log.of(Decision(records=[Versioned(registered)])) == [f"controller 7 registered, incarnation {uuid(7)}"]
    unregistered = UnregisterControllerRecord(controller_id=7)
    assert log.of(Decision(records=[Versioned(unregistered)])) == ["controller 7 unregistered"]


def test_a_broker_that_has_shut_down_is_fenced_in_one_line(log: Log) -> None:
    """The end of its session is written to the log as well, seconds later."""
    assert log.asked(a_registration(5, 5)) == [f"broker 5 registered, incarnation {uuid(5)}"]
    assert beat(log, 5) == ["broker 5 unfenced"]
    assert beat(log, 5, want_shut_down=True) == ["broker 5 fenced: it has shut down"]
    for broker_id in (1, 2, 3, 4):
        take_effect(log.context, ask(log.context, a_heartbeat(log.context, broker_id), BEGIN_MS + SESSION_MS))
    look(log.context, BEGIN_MS + SESSION_MS)
    expired = look(log.context, BEGIN_MS + SESSION_MS + 1)
    assert expired is not None and expired.records, "the end of the session is a record"
    assert log.of(expired) == []


def test_the_operator_is_warned_when_the_last_directory_is_cordoned(log: Log) -> None:
    """No topic can be created then, and otherwise only the answer to CreateTopics says so."""
    warned = []
    for broker_id in (1, 2, 3, 4):
        directories = log.context.image.brokers[broker_id].directories
        decision = ask(log.context, a_heartbeat(log.context, broker_id, cordoned_log_dirs=list(directories)))
        warned.append([*notice_of(log.context.image, decision, None).warnings])
        take_effect(log.context, decision)
    assert warned == [[], [], [], [ALL_CORDONED]]
    decision = ask(log.context, a_heartbeat(log.context, 2, cordoned_log_dirs=[]))
    assert [*notice_of(log.context.image, decision, None).warnings] == []


def test_a_warning_is_logged_once_its_decision_is_committed() -> None:
    stage = Stage()
    stage.commit()
    stage.ask(a_registration(4, 4, cluster_id="a cluster"), "registered", version=4)
    stage.commit()
    stage.ask(a_heartbeat(stage.controller.context, 4, cordoned_log_dirs=[uuid(1004)]), "cordoned", version=2)
    assert ALL_CORDONED not in stage.log_lines
    stage.commit()
    assert stage.log_lines.count(ALL_CORDONED) == 1


def test_a_controlled_shutdown_of_20_000_leaders_is_three_lines(log: Log) -> None:
    """The second is of the partitions that the answer waits for."""
    decision = ask(log.context, a_heartbeat(log.context, 1, want_shut_down=True))
    lines = log.of(decision)
    assert lines == ["broker 1 in controlled shutdown", f"{SHUT_DOWN_AT_ONCE:,} partitions have other leaders"]
    assert decision.rest is not None
    rest = decision.rest.decide()
    lines = log.of(rest if isinstance(rest, Decision) else finished(rest))
    assert lines == [f"{20_000 - SHUT_DOWN_AT_ONCE:,} partitions have other leaders"]


def test_a_lost_broker_is_logged_with_the_reason(log: Log) -> None:
    for broker_id in (2, 3, 4):
        take_effect(log.context, ask(log.context, a_heartbeat(log.context, broker_id), BEGIN_MS + SESSION_MS))
        log.context.heartbeats.touch(broker_id, BEGIN_MS + SESSION_MS, fenced=False)
    lines = log.of(look(log.context, BEGIN_MS + SESSION_MS + 1))
    assert lines == ["broker 1 fenced: its session has ended", "20,000 partitions have other leaders"]


def test_partitions_go_offline_and_come_back(log: Log) -> None:
    a_topic(log.context, 3, [4], number=2)
    assert beat(log, 4, want_fence=True) == [
        "broker 4 fenced: its heartbeat requested this",
        "3 partitions have no leader: they are offline",
    ]
    assert beat(log, 4) == ["broker 4 unfenced", "3 partitions have leaders again"]


def test_an_unclean_leader_is_logged(log: Log) -> None:
    a_topic(log.context, 1, [4, 3], isr=[4], number=2)
    put(
        log.context,
        ConfigRecord(
            resource_type=TOPIC_CONFIG, resource_name="topic-2", name="unclean.leader.election.enable", value="true"
        ),
    )
    assert beat(log, 4, want_fence=True)[1:] == [
        "1 partition has another leader",
        "1 partition has a leader that was not in sync: records may be lost",
    ]


def test_a_lost_directory_is_logged(log: Log) -> None:
    put(log.context, _with_directories(log, [uuid(1001), uuid(2001)]))
    lines = beat(log, 1, offline_log_dirs=[uuid(2001)])
    assert lines[:1] == ["broker 1 lost 1 of its 2 log directories"]


def _with_directories(log: Log, directories: list[Uuid]) -> RegisterBrokerRecord:
    broker = log.context.image.brokers[1]
    return RegisterBrokerRecord(
        broker_id=1, incarnation_id=uuid(1), broker_epoch=broker.epoch, fenced=False, log_dirs=directories
    )


def test_20_000_reassignments_that_end_one_by_one_are_a_line_a_second(log: Log) -> None:
    assert moved(log, range(20_000), [1, 2, 4]) == ["20,000 partitions are being reassigned"]
    assert moved(log, range(10), None) == ["10 reassignments are cancelled"]
    decisions = [in_sync(log, 10 + at, [1, 2, 3, 4], BEGIN_MS + 20 * at) for at in range(101)]
    assert [line for lines in decisions for line in lines] == [
        "1 reassignment is complete",
        "50 reassignments are complete",
        "50 reassignments are complete",
    ]
    assert in_sync(log, 200, [1, 2, 3, 4], BEGIN_MS + 2_100) == []
    assert log.notices.due(BEGIN_MS + 2_999) == []
    assert log.notices.due(BEGIN_MS + 3_000) == ["1 reassignment is complete"]
    assert log.notices.rest() == []


def test_another_order_of_replicas_is_complete_at_once(log: Log) -> None:
    assert moved(log, range(2), [1, 3, 2]) == ["2 reassignments are complete"]


def test_topics_are_named_up_to_five(log: Log) -> None:
    for number in range(2, 10):
        a_topic(log.context, 1, [1], number=number)
    names = [f"topic-{number}" for number in range(1, 10)]
    lines = log.asked(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]))
    assert lines == ["topics topic-1, topic-2, topic-3, topic-4, topic-5 and 4 more deleted"]


def test_a_standby_of_a_new_quorum_answers_before_anything_is_committed() -> None:
    """Kafka's answers at the oldest metadata.version: clients that look for the active controller ask again."""
    request = DescribeClusterRequest(endpoint_type=2)
    [answered] = controller_of().on_request(request, RequestInfo(1, BEGIN_MS), "early")
    assert isinstance(answered, RequestAnswer) and answered.response is not None
    assert Errors(getattr(answered.response, "error_code")) is Errors.UNSUPPORTED_VERSION  # noqa: B009
