"""Random stories: the queue beside a plain model of it, and moves with crashes and failing disks at any moment."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.directories.placements import A, B, C, Image, a_queue, answer, asked, p, settled, uuid
from broker.directories.world import World
from kcore.broker.directories.outputs import Outcome
from kcore.metadata.table.directory_table import LOST_UUID, UNASSIGNED_UUID
from kcore.protocol_errors import Errors
from kcore.types import Uuid

PARTITIONS = [p(0), p(1), p(0, uuid(5001))]
DIRECTORIES = [A, B, C]
ERRORS = [Errors.NONE, Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER, Errors.INVALID_REQUEST, Errors.UNKNOWN_TOPIC_ID]
A_PARTITION, A_DIRECTORY = st.sampled_from(PARTITIONS), st.sampled_from(DIRECTORIES)

QUEUE_STEPS = st.one_of(
    st.tuples(st.just("enqueue"), A_PARTITION, st.sampled_from([*DIRECTORIES, LOST_UUID]), st.booleans()),
    st.tuples(st.just("all"), A_DIRECTORY),
    st.tuples(st.just("cancel"), A_PARTITION, A_DIRECTORY),
    st.tuples(st.just("request")),
    st.tuples(st.just("answer"), st.lists(st.sampled_from(ERRORS), min_size=3, max_size=3), st.booleans()),
    st.tuples(st.just("lost")),
    st.tuples(st.just("publish")),
    st.tuples(st.just("failed"), A_DIRECTORY),
    st.tuples(st.just("delete"), A_PARTITION),
)


class QueueStory:
    """The queue, a controller, an image that lags, and the slow model: the last wish of each partition."""

    def __init__(self) -> None:
        self.controller: dict[Any, Uuid] = dict.fromkeys(PARTITIONS, UNASSIGNED_UUID)
        self.image = Image(self.controller)
        self.queue = a_queue(self.image)
        self.wanted: dict[Any, Uuid] = {}
        self.tickets: dict[int, tuple[Any, Uuid]] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.written: dict[Any, list[Uuid]] = {each: [] for each in PARTITIONS}
        self.request: Any = None
        self.now_ms = 0

    def settle(self) -> None:
        for ticket, outcome in settled(self.queue).items():
            assert ticket not in self.outcomes, "settled twice"
            self.outcomes[ticket] = outcome
            partition, directory = self.tickets[ticket]
            if outcome is Outcome.ACCEPTED:
                assert directory in self.written[partition], "settled early"
                assert self.wanted[partition] == directory
            elif outcome is Outcome.SUPERSEDED:
                assert self.wanted.get(partition) != directory
            else:
                assert partition not in self.controller or partition not in self.image

    def enqueue(self, partition: Any, directory: Uuid, waits: bool) -> None:
        if partition in self.image:
            self.wanted[partition] = directory
            ticket = len(self.tickets) if waits else None
            if ticket is not None:
                self.tickets[ticket] = partition, directory
            self.queue.enqueue(partition, directory, "test", self.now_ms, ticket)

    def all(self, directory: Uuid) -> None:
        self.wanted |= dict.fromkeys(self.image, directory)
        self.queue.enqueue_all([*self.image], directory, "test", self.now_ms)

    def cancel(self, partition: Any, directory: Uuid) -> None:
        if self.queue.cancel(partition, directory):
            assert partition in self.wanted or partition not in self.image, "never queued"
            assert self.wanted.pop(partition, directory) == directory

    def ask(self) -> None:
        self.now_ms += 15_000
        if self.request is None:
            self.request = self.queue.next_request(self.now_ms)
            for partition, directory in asked(self.request).items():
                assert self.wanted[partition] == directory

    def write(self, errors: list[Errors], is_lost: bool) -> None:
        if self.request is None:
            return
        request, self.request = self.request, None
        found = dict(zip(PARTITIONS, errors, strict=True))
        for partition in PARTITIONS:
            if partition not in self.controller:
                found[partition] = Errors.UNKNOWN_TOPIC_ID
            elif found[partition] is Errors.UNKNOWN_TOPIC_ID:
                found[partition] = Errors.NONE  # A controller does not lie.
        for partition, directory in asked(request).items():
            if found[partition] is Errors.NONE:
                self.controller[partition] = directory
                self.written[partition].append(directory)
        self.queue.on_response(None if is_lost else answer(request, found.__getitem__), self.now_ms)

    def publish(self) -> None:
        gone = self.image.keys() - self.controller.keys()
        touched = [each for each, place in self.controller.items() if self.image[each] != place]
        self.image.clear()
        self.image.update(self.controller)
        for each in gone:
            self.wanted.pop(each, None)
        changed = [*gone, *touched]
        self.queue.on_image(changed, self.image.directories_of(changed))

    def take(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("enqueue", partition, directory, waits):
                self.enqueue(partition, directory, waits)
            case ("all", directory):
                self.all(directory)
            case ("cancel", partition, directory):
                self.cancel(partition, directory)
            case ("request",):
                self.ask()
            case ("answer", errors, is_lost):
                self.write(errors, is_lost)
            case ("lost",):
                if self.request is not None:
                    self.request = None
                    self.queue.on_response(None, self.now_ms)
            case ("publish",):
                self.publish()
            case ("failed", directory):
                self.queue.on_directory_failed(directory)
            case ("delete", partition):
                self.controller.pop(partition, None)
        self.settle()


@settings(max_examples=60, deadline=None)
@given(st.lists(QUEUE_STEPS, min_size=20, max_size=40))
def test_the_controller_ends_with_what_was_wanted_last_and_each_ticket_is_settled_once(steps: list[Any]) -> None:
    story = QueueStory()
    for step in steps:
        story.take(step)
        assert story.queue.queued <= 2 * len(PARTITIONS)
    for _ in range(4):
        for step in (("publish",), ("request",), ("answer", [Errors.NONE] * 3, False)):
            story.take(step)
    assert story.queue.queued == 0
    assert story.outcomes.keys() == story.tickets.keys()
    for partition, directory in story.wanted.items():
        assert story.controller[partition] == directory


WORLD_STEPS = st.one_of(
    st.tuples(st.just("alter"), A_PARTITION, A_DIRECTORY),
    st.tuples(st.just("alter"), A_PARTITION, A_DIRECTORY),
    *(st.tuples(st.just(name), A_PARTITION) for name in ("append", "copy", "copy", "copy", "delete")),
    *(
        st.tuples(st.just(name))
        for name in ("send", "write", "send", "write", "write, lost", "lose", "publish", "crash")
    ),
    st.tuples(st.just("fail"), A_DIRECTORY),
    st.tuples(st.just("repair"), A_DIRECTORY),
    st.tuples(st.just("replace"), A_DIRECTORY),
    st.tuples(st.just("refuse"), A_PARTITION, st.sampled_from([Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER])),
)


class Story(World):
    """A world to which such steps happen; behind each, a few of the outputs are done."""

    def __init__(self) -> None:
        super().__init__(list(DIRECTORIES), list(PARTITIONS))
        self.names = dict(zip(DIRECTORIES, DIRECTORIES, strict=True))  # A disk's first id, and the one it has now.
        self.new = 100

    def take(self, step: tuple[Any, ...], performed: int) -> None:
        match step:
            case ("alter", partition, directory) if partition in self.controller:
                self.alter(partition, self.names[directory])
            case ("append", partition):
                self.append(partition)
            case ("copy", partition):
                self.copy(partition)
            case ("delete", partition) if len(self.controller) > 1:
                self.controller.pop(partition, None)
            case ("send",):
                self.send()
            case ("write",):
                self.write()
            case ("write, lost",):
                self.write(is_lost=True)
            case ("lose",):
                self.lose()
            case ("publish",):
                self.publish()
            case ("crash",):
                self.restart()
            case ("fail", directory):
                self.fail(self.names[directory])
            case ("repair", directory):
                self.repair(self.names[directory])
            case ("replace", directory) if self.disks[self.names[directory]].has_failed:
                self.new += 1
                self.replace(self.names[directory], uuid(self.new))
                self.names[directory] = uuid(self.new)
            case ("refuse", partition, error):
                self.refuses[partition] = error
        self.check()
        self.drain(performed)


STORIES = st.lists(st.tuples(WORLD_STEPS, st.integers(0, 4)), min_size=30, max_size=60)


def tell(steps: list[Any]) -> None:
    story = Story()
    for step, performed in steps:
        story.take(step, performed)
    story.heal()
    story.check_healed()


@settings(max_examples=40, deadline=None)
@given(STORIES)
def test_moves_lose_nothing_and_controller_and_broker_agree_in_the_end(steps: list[Any]) -> None:
    tell(steps)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(STORIES)
def test_moves_in_many_stories(steps: list[Any]) -> None:
    tell(steps)
