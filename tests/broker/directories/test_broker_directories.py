"""A broker's directories as its process uses them; with the real image, and with kcore's real controller."""

import pytest

from broker.directories.placements import A, B, C, Image, answer, asked, p
from controller.kraft.broker_clusters import a_cluster, a_topic, ask, put, take_effect, uuid
from kcore.broker.directories.assignments import ImagePlacements
from kcore.broker.directories.broker_directories import BrokerDirectories
from kcore.broker.directories.failures import DirectoryFailures
from kcore.broker.directories.found import FoundReplica
from kcore.broker.directories.outputs import CreateReplica, Output, ShutDown, TopicIdPartition
from kcore.broker.directories.placing import MOST_PREFERRED, DirectoryChoice
from kcore.constants import NO_LEADER
from kcore.controller.kraft.kraft_context import ControllerContext
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.directory_table import LOST_UUID, MIGRATING_UUID, UNASSIGNED_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsResponse
from kcore.schema.metadata_records_brokers import RegisterBrokerRecord
from kcore.schema.metadata_records_topics import RemoveTopicRecord
from kcore.types import Uuid

BROKER = 1
KEY = ("topic-1", 0)


def directories(image: Image | ImagePlacements, configured: int = 3) -> BrokerDirectories:
    """The directories of a registered broker: A, B and C."""
    made = BrokerDirectories(BROKER, DirectoryFailures((A, B, C), configured), image, lambda: 1.0)
    made.queue.broker_epoch, made.queue.is_supported = 0, True
    return made


def created(made: BrokerDirectories) -> list[TopicIdPartition]:
    """Creates the requested replicas, in A unless the output names a directory."""
    found: list[Output] = made.take_outputs()
    partitions = [each.partition for each in found if isinstance(each, CreateReplica)]
    for output in found:
        assert isinstance(output, CreateReplica)
        made.on_created(output.partition, output.directory or A, 0)
    return partitions


def test_new_replicas_are_created_once_and_then_reported() -> None:
    image = Image({p(0): UNASSIGNED_UUID, p(1): B})
    made = directories(image)
    made.catch_up([p(0), p(1)], 0)
    made.catch_up([p(0), p(1)], 0)
    assert not made.serves(p(0))
    assert created(made) == [p(0), p(1)]
    assert made.serves(p(0)) and made.places == {p(0): A, p(1): B}
    assert asked(made.next_request(1_000)) == {p(0): A}


def test_a_replica_whose_directory_fails_as_it_is_created_is_created_when_it_is_assigned_elsewhere() -> None:
    image = Image({p(0): B})
    made = directories(image)
    made.catch_up([p(0)], 0)
    assert made.take_outputs() == [CreateReplica(p(0), B)]
    made.on_directory_failed(B, 0)
    made.on_not_created(p(0))
    made.catch_up([p(0)], 0)
    assert CreateReplica(p(0), B) not in made.take_outputs()
    image[p(0)] = C
    made.catch_up([p(0)], 0)
    assert made.take_outputs() == [CreateReplica(p(0), C)]


@pytest.mark.covers("KIP-858 catch-up")
def test_all_replicas_of_a_broker_are_compared_and_differences_reported() -> None:
    count = 25_000
    image = Image({p(index): (A, B, UNASSIGNED_UUID)[index % 3] for index in range(count)})
    made = directories(image)
    for partition in image:
        made.on_found(partition, FoundReplica(A, None))
    made.catch_up([*image], 0)
    assert made.take_outputs() == []
    assert made.queue.queued == sum(each != A for each in image.values())


@pytest.mark.covers("C5")
def test_below_3_7_iv2_no_replica_is_queued() -> None:
    image = Image({p(0): MIGRATING_UUID, p(1): MIGRATING_UUID})
    made = directories(image)
    made.queue.is_supported = False
    made.on_found(p(0), FoundReplica(A, None))
    made.catch_up([*image], 0)
    assert created(made) == [p(1)] and made.queue.queued == 0
    made.queue.is_supported = True
    made.catch_up([*image], 0)
    assert asked(made.next_request(1_000)) == {p(0): A, p(1): A}


@pytest.mark.parametrize("known", [UNASSIGNED_UUID, B, MIGRATING_UUID])
def test_a_directory_that_fails_before_its_replica_was_reported_is_reported(known: Uuid) -> None:
    """The last process did not report A, and A fails before this process compares its replicas with the image."""
    image = Image({p(0): known})
    made = directories(image)
    made.on_found(p(0), FoundReplica(A, None))
    made.on_directory_failed(A, 0)
    made.catch_up([p(0)], 0)
    assert asked(made.next_request(0)) == {p(0): A}
    assert not any(isinstance(each, CreateReplica) for each in made.take_outputs())


@pytest.mark.covers("C12")
def test_a_dead_directorys_replicas_are_not_made_elsewhere_and_a_topic_of_that_name_is() -> None:
    image = Image({p(0): A, p(1): UNASSIGNED_UUID})
    made = directories(image)
    made.on_found(p(0), FoundReplica(A, None))
    made.on_found(p(1), FoundReplica(A, None))
    made.catch_up([*image], 0)
    made.on_directory_failed(A, 0)
    made.take_outputs()
    made.catch_up([*image], 0)
    assert made.take_outputs() == [] and not made.serves(p(0)) and not made.serves(p(1))
    assert asked(made.next_request(0)) == {p(1): A}  # This reports to the controller that the replica is offline.
    del image[p(0)]
    made.on_stopped(p(0), 0)
    again = p(0, uuid(77))
    image[again] = UNASSIGNED_UUID
    made.catch_up([again], 0)
    (output,) = made.take_outputs()
    assert output == CreateReplica(again, None)
    made.on_created(again, B, 0)
    assert made.serves(again)


def test_what_may_be_in_an_offline_directory_is_not_served_until_it_is_known() -> None:
    image = Image({p(0): uuid(999)})
    made = directories(image, configured=4)
    made.on_found(p(0), FoundReplica(A, None))
    made.catch_up([p(0)], 0)
    assert not made.serves(p(0)) and made.queue.queued == 0
    image[p(0)] = A
    made.catch_up([p(0)], 0)
    assert made.serves(p(0))


@pytest.mark.covers("KIP-858 migration 8", "KIP-858 migration 9")
def test_a_broker_that_migrates_knows_when_its_assignments_are_persisted() -> None:
    image = Image({p(0): MIGRATING_UUID, p(1): MIGRATING_UUID})
    made = directories(image)
    for partition in image:
        made.on_found(partition, FoundReplica(B, None))
    made.catch_up([*image], 0)
    assert not made.are_persisted([*image])
    request = made.next_request(1_000)
    assert asked(request) == {p(0): B, p(1): B}
    made.on_response(answer(request), 1_000)
    image[p(0)] = B
    assert not made.are_persisted([*image])
    image[p(1)] = B
    assert made.are_persisted([*image])


def test_alter_replica_log_dirs_is_refused_as_kafka_refuses_it() -> None:
    image = Image({p(0): A, p(1): A, p(2): B})
    made = directories(image)
    for partition, place in image.items():
        made.on_found(partition, FoundReplica(place, None))
    made.cordoned = {C}
    alter = made.alter_replica_log_dir
    assert alter(("t" * 220, 0), p(0), B, 0) is Errors.INVALID_TOPIC_EXCEPTION
    assert alter(KEY, p(0), None, 0) is Errors.LOG_DIR_NOT_FOUND
    assert alter(KEY, p(0), C, 0) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert alter(KEY, p(0), A, 0) is Errors.NONE
    assert alter(("topic-2", 5), None, B, 0) is Errors.REPLICA_NOT_AVAILABLE
    assert made.choice.take(("topic-2", 5), A, (A, B, C), (), {}) == B
    made.cordoned = ()
    made.on_directory_failed(C, 0)
    assert alter(KEY, p(0), C, 0) is Errors.KAFKA_STORAGE_ERROR
    assert alter(KEY, p(0), B, 0) is Errors.KAFKA_STORAGE_ERROR  # There may be a future replica in C.
    made.on_directory_failed(B, 0)
    assert alter(KEY, p(2), A, 0) is Errors.KAFKA_STORAGE_ERROR
    assert len(made.moves) == 0


def test_a_new_replica_goes_where_the_fewest_are_and_not_where_it_is_cordoned() -> None:
    choice = DirectoryChoice()
    logs = {A: 3, B: 1, C: 2}
    assert choice.take(KEY, None, (A, B, C), (), logs) == B
    assert choice.take(KEY, None, (A, B, C), (B,), logs) == C
    assert choice.take(KEY, None, (A, B, C), (A, B, C), logs) == B
    assert choice.take(KEY, C, (A, B, C), (), logs) == C
    choice.prefer(KEY, A)
    assert choice.take(KEY, C, (A, B, C), (), logs) == A
    assert choice.take(KEY, C, (A, B, C), (), logs) == C
    for index in range(MOST_PREFERRED + 1):
        choice.prefer(("topic", index), A)
    assert choice.take(("topic", 0), None, (A, B), (), logs) == B


@pytest.mark.covers("C13")
def test_an_assignment_that_is_not_accepted_stops_a_broker_that_leads_there() -> None:
    image = Image({p(0): UNASSIGNED_UUID})
    made = directories(image)
    made.on_found(p(0), FoundReplica(A, None))
    made.catch_up([p(0)], 0)
    made.on_directory_failed(A, 0)
    made.failures.on_heartbeat_accepted([A])
    made.take_outputs()
    deadline = made.failures.next_deadline_ms
    assert deadline is not None
    made.tick(deadline)
    assert made.take_outputs() == []
    image.led.add(p(0))
    made.tick(deadline + 1_000)
    assert isinstance(made.take_outputs()[0], ShutDown)


# With kcore's controller and the image that its records are replayed into.


def a_real_cluster() -> tuple[ControllerContext, BrokerDirectories]:
    """Brokers 1 to 3; broker 1 has A, B and C. The topic of two partitions is led by broker 1."""
    context = a_cluster()
    record = RegisterBrokerRecord(
        broker_id=BROKER, incarnation_id=uuid(1), broker_epoch=0, fenced=False, log_dirs=[A, B, C]
    )
    put(context, record)
    a_topic(context, 2, [1, 2, 3])
    made = directories(ImagePlacements(context.image, BROKER))
    made.queue.broker_epoch = context.image.brokers[BROKER].epoch
    return context, made


def exchange(context: ControllerContext, made: BrokerDirectories, now_ms: int) -> AssignReplicasToDirsResponse:
    """One request, decided by the controller; its records take effect before the answer comes."""
    request = made.next_request(now_ms)
    assert request is not None
    response = take_effect(context, ask(context, request)).response
    assert isinstance(response, AssignReplicasToDirsResponse)
    made.on_response(response, now_ms)
    return response


PARTITIONS = [(uuid(5001), 0), (uuid(5001), 1)]


def placed() -> tuple[ControllerContext, BrokerDirectories]:
    """The replicas of broker 1 are in A, and the controller knows."""
    context, made = a_real_cluster()
    for partition in PARTITIONS:
        made.on_found(partition, FoundReplica(A, None))
    made.catch_up(PARTITIONS, 0)
    assert exchange(context, made, 1_000).error_code == Errors.NONE
    made.catch_up(PARTITIONS, 1_000)
    return context, made


def test_the_real_controller_gets_what_the_broker_has() -> None:
    context, made = placed()
    assert ImagePlacements(context.image, BROKER).directories_of(PARTITIONS) == [A, A]
    assert made.queue.queued == 0 and made.are_persisted(PARTITIONS)


@pytest.mark.covers("C10", "KIP-858 request lost")
def test_the_real_controller_takes_a_lost_replica_out_of_leadership_and_isr() -> None:
    context, made = placed()
    partition = PARTITIONS[0]
    assert made.alter_replica_log_dir(KEY, partition, B, 0) is Errors.NONE
    made.on_caught_up(partition, 0)
    exchange(context, made, 30_000)
    row = context.image.table.row_of("topic-1", 0)
    assert context.image.table.registration(row).directories[0] == B
    made.on_directory_failed(A, 30_000)
    exchange(context, made, 30_000)
    registration = context.image.table.registration(row)
    assert registration.directories[0] == LOST_UUID
    assert registration.leader not in (BROKER, NO_LEADER) and BROKER not in registration.isr


@pytest.mark.covers("C7", "C8")
def test_the_real_controller_does_not_know_a_topic_that_the_image_still_has() -> None:
    context, made = placed()
    stale = Image(dict.fromkeys(PARTITIONS, C))
    late = directories(stale)
    late.queue.broker_epoch = made.queue.broker_epoch
    for partition in PARTITIONS:
        late.on_found(partition, FoundReplica(A, None))
    late.catch_up(PARTITIONS, 0)
    put(context, RemoveTopicRecord(topic_id=uuid(5001)))
    exchange(context, late, 1_000)
    assert late.queue.queued == 0


def test_an_older_incarnation_is_refused_until_it_knows_its_epoch() -> None:
    context, made = a_real_cluster()
    for partition in PARTITIONS:
        made.on_found(partition, FoundReplica(A, None))
    made.catch_up(PARTITIONS, 0)
    epoch, made.queue.broker_epoch = made.queue.broker_epoch, 99_999
    assert exchange(context, made, 1_000).error_code == Errors.STALE_BROKER_EPOCH
    made.queue.broker_epoch = epoch
    assert exchange(context, made, 30_000).error_code == Errors.NONE
    assert made.queue.queued == 0


def test_an_image_without_the_broker_or_its_partitions_has_no_directories() -> None:
    context, _made = a_real_cluster()
    assert ImagePlacements(ClusterImage(), BROKER).directories_of(PARTITIONS) == [None, None]
    assert ImagePlacements(context.image, 99).directories_of(PARTITIONS) == [None, None]
    unknown = [(uuid(5001), 7), (uuid(1), 0)]
    assert not ImagePlacements(context.image, BROKER).leads_any(unknown)
    assert ImagePlacements(context.image, BROKER).leads_any([*unknown, PARTITIONS[0]])
    assert not ImagePlacements(context.image, 2).leads_any(PARTITIONS)
    assert ImagePlacements(context.image, BROKER).directories_of([*unknown, PARTITIONS[0]])[:2] == [None, None]
