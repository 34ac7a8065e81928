"""An image of one broker's directories, as a dictionary; requests and answers as short as tests want them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from kcore.broker.directories.assignments import AssignmentQueue
from kcore.broker.directories.outputs import AssignmentSettled, Outcome, TopicIdPartition
from kcore.controller.kraft.leaders.directories import answered
from kcore.metadata.table.directory_table import UNASSIGNED_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kcore.steps import finished
from kcore.types import Uuid

BROKER, EPOCH = 1, 7


def uuid(number: int) -> Uuid:
    """A Uuid by number, above the reserved ones."""
    return Uuid((number << 64).to_bytes(16, "big"))


A, B, C = uuid(900), uuid(901), uuid(902)
TOPIC = uuid(5000)


def p(index: int, topic: Uuid = TOPIC) -> TopicIdPartition:
    """A partition."""
    return topic, index


class Image(dict[TopicIdPartition, Uuid]):
    """The directories in the newest image; a partition without an entry has no replica."""

    def directories_of(self, partitions: Sequence[TopicIdPartition]) -> list[Uuid | None]:
        return [self.get(each) for each in partitions]

    def leads_any(self, partitions: Sequence[TopicIdPartition]) -> bool:
        return not self.led.isdisjoint(partitions)

    @cached_property
    def led(self) -> set[TopicIdPartition]:
        """The partitions that the broker leads."""
        return set()


def a_queue(image: Image, jitter: float = 1.0) -> AssignmentQueue:
    """The queue of a registered broker at a metadata.version with directories."""
    queue = AssignmentQueue(BROKER, image, lambda: jitter)
    queue.broker_epoch, queue.is_supported = EPOCH, True
    return queue


def an_image(count: int, directory: Uuid = UNASSIGNED_UUID) -> Image:
    """`count` partitions of one topic."""
    return Image({p(index): directory for index in range(count)})


def asked(request: AssignReplicasToDirsRequest | None) -> dict[TopicIdPartition, Uuid]:
    """The assignments in a request; none without a request."""
    if request is None:
        return {}
    found = {
        (topic.topic_id, each.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for each in topic.partitions
    }
    assert len(found) == sum(len(t.partitions) for d in request.directories for t in d.topics)
    return found


def no_error(_partition: TopicIdPartition) -> Errors:
    return Errors.NONE


def answer(
    request: AssignReplicasToDirsRequest | None,
    error_of: Callable[[TopicIdPartition], Errors] = no_error,
    without: Iterable[TopicIdPartition] = (),
) -> AssignReplicasToDirsResponse:
    """The controller's response, with the error of each partition; some are left out."""
    assert request is not None
    codes = [
        int(error_of((topic.topic_id, each.partition_index)))
        for directory in request.directories
        for topic in directory.topics
        for each in topic.partitions
    ]
    response = finished(answered(request, codes))
    for topic in (topic for directory in response.directories for topic in directory.topics):
        topic.partitions = [each for each in topic.partitions if (topic.topic_id, each.partition_index) not in without]
    return response


def settled(queue: AssignmentQueue) -> dict[int, Outcome]:
    """The tickets that were settled since the last call, with their outcomes."""
    outputs = [each for each in queue.take_outputs() if isinstance(each, AssignmentSettled)]
    found = {each.ticket: each.outcome for each in outputs}
    assert len(found) == len(outputs)
    return found
