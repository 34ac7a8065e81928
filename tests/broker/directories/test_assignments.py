"""The queue of AssignReplicasToDirs, rule by rule."""

import pytest

from broker.directories.placements import (
    BROKER,
    EPOCH,
    A,
    B,
    C,
    Image,
    a_queue,
    an_image,
    answer,
    asked,
    p,
    settled,
    uuid,
)
from kcore.broker.directories.assignments import (
    BATCHING_MS,
    MAX_ASSIGNMENTS_PER_REQUEST,
    MAX_BACKOFF_MS,
    NOISY_FAILURE_MS,
    AssignmentQueue,
)
from kcore.broker.directories.outputs import AssignmentsRefused, Outcome, TopicIdPartition
from kcore.metadata.table.directory_table import LOST_UUID
from kcore.protocol_errors import Errors
from kcore.schema.log_dirs import AssignReplicasToDirsResponse

SOON = BATCHING_MS


def refusing(*refused: TopicIdPartition, error: Errors) -> object:
    return lambda partition: error if partition in refused else Errors.NONE


def refused_whole(error: Errors) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(error_code=error)


@pytest.mark.covers("KIP-858 request 1", "KIP-858 request 2", "KIP-858 request 3")
def test_a_request_names_broker_epoch_directories_topics_and_partitions() -> None:
    image = an_image(3) | {p(0, uuid(1)): A}
    queue = a_queue(Image(image))
    for partition, directory in ((p(0), A), (p(1), B), (p(2), A), (p(0, uuid(1)), B)):
        queue.enqueue(partition, directory, "test", 0)
    request = queue.next_request(SOON)
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (BROKER, EPOCH)
    assert [each.id for each in request.directories] == [A, B]
    assert [len(each.topics) for each in request.directories] == [1, 2]
    assert asked(request) == {p(0): A, p(1): B, p(2): A, p(0, uuid(1)): B}


@pytest.mark.covers("KIP-858 gauge")
def test_the_gauge_counts_what_waits_and_what_is_in_flight() -> None:
    queue = a_queue(an_image(3))
    queue.enqueue_all([p(0), p(1)], A, "test", 0)
    assert queue.queued == 2
    request = queue.next_request(SOON)
    queue.enqueue(p(2), A, "test", SOON)
    assert queue.queued == 3
    queue.on_response(answer(request), SOON)
    assert queue.queued == 1


def test_a_few_entries_wait_for_others_and_many_do_not() -> None:
    queue = a_queue(an_image(MAX_ASSIGNMENTS_PER_REQUEST + 1))
    queue.enqueue(p(0), A, "test", 5)
    assert queue.next_deadline_ms == 5 + BATCHING_MS
    assert queue.next_request(4 + BATCHING_MS) is None
    queue.enqueue_all([*an_image(MAX_ASSIGNMENTS_PER_REQUEST + 1)], A, "test", 50)
    assert queue.next_deadline_ms == 50
    assert queue.next_request(50) is not None


@pytest.mark.covers("KIP-858 batches")
def test_a_request_has_at_most_2250_assignments() -> None:
    count = 2 * MAX_ASSIGNMENTS_PER_REQUEST + 10
    queue = a_queue(an_image(count))
    queue.enqueue_all([*an_image(count)], A, "test", 0)
    sizes, seen = [], set()
    for now_ms in (0, 0, BATCHING_MS):
        request = queue.next_request(now_ms)
        sizes.append(len(asked(request)))
        seen |= asked(request).keys()
        queue.on_response(answer(request), now_ms)
    assert sizes == [MAX_ASSIGNMENTS_PER_REQUEST, MAX_ASSIGNMENTS_PER_REQUEST, 10]
    assert seen == an_image(count).keys()
    assert queue.queued == 0 and queue.next_deadline_ms is None


@pytest.mark.covers("KIP-858 batches")
def test_one_request_is_in_flight() -> None:
    queue = a_queue(an_image(2))
    queue.enqueue(p(0), A, "test", 0)
    request = queue.next_request(SOON)
    queue.enqueue(p(1), A, "test", SOON)
    assert queue.next_deadline_ms is None and queue.next_request(10 * SOON) is None
    queue.on_response(answer(request), 10 * SOON)
    assert asked(queue.next_request(11 * SOON)) == {p(1): A}


@pytest.mark.covers("KIP-858 batches")
def test_the_limit_is_kafkas() -> None:
    """AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST"""
    assert MAX_ASSIGNMENTS_PER_REQUEST == 2_250


@pytest.mark.covers("C5")
def test_nothing_is_sent_before_the_metadata_version_allows_it() -> None:
    queue = a_queue(an_image(1))
    queue.is_supported = False
    queue.enqueue(p(0), A, "test", 0)
    assert queue.next_deadline_ms is None
    assert queue.next_request(1_000_000) is None
    queue.is_supported = True
    assert asked(queue.next_request(1_000_000)) == {p(0): A}


@pytest.mark.covers("C18")
def test_nothing_is_sent_before_the_broker_is_registered_and_then_with_its_epoch() -> None:
    queue = AssignmentQueue(BROKER, an_image(1), lambda: 1.0)
    queue.is_supported = True
    queue.enqueue(p(0), A, "test", 0)
    assert queue.next_request(1_000_000) is None
    queue.broker_epoch = 12
    request = queue.next_request(1_000_000)
    assert request is not None and request.broker_epoch == 12


@pytest.mark.covers("C7")
def test_a_replica_that_is_reassigned_away_is_not_assigned_for_ever() -> None:
    image = an_image(2)
    queue = a_queue(image)
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    queue.enqueue(p(1), A, "test", 0)
    error_of = refusing(p(0), error=Errors.NOT_LEADER_OR_FOLLOWER)
    queue.on_response(answer(queue.next_request(SOON), error_of), SOON)  # type: ignore[arg-type]
    assert queue.queued == 1  # The image has it here still: it lags, or the controller's answer is wrong.
    del image[p(0)]
    assert queue.next_request(10 * SOON) is None
    assert queue.queued == 0
    assert settled(queue) == {1: Outcome.DROPPED}


@pytest.mark.covers("C8")
@pytest.mark.parametrize("error", [Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_topic_that_came_and_went_is_not_assigned_for_ever(error: Errors) -> None:
    queue = a_queue(an_image(2))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    queue.enqueue(p(1), A, "test", 0, ticket=2)
    queue.on_response(answer(queue.next_request(SOON), refusing(p(0), error=error)), SOON)  # type: ignore[arg-type]
    assert queue.queued == 0
    assert settled(queue) == {1: Outcome.DROPPED, 2: Outcome.ACCEPTED}


@pytest.mark.covers("C9")
def test_the_newest_assignment_wins_and_each_completion_comes_once_and_not_early() -> None:
    queue = a_queue(an_image(1))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    queue.enqueue(p(0), A, "again", 0, ticket=2)
    assert settled(queue) == {}
    queue.enqueue(p(0), B, "test", 0, ticket=3)
    assert settled(queue) == {1: Outcome.SUPERSEDED, 2: Outcome.SUPERSEDED}
    request = queue.next_request(SOON)
    assert asked(request) == {p(0): B}
    queue.enqueue(p(0), C, "test", SOON, ticket=4)
    assert settled(queue) == {3: Outcome.SUPERSEDED}
    queue.on_response(answer(request), SOON)
    assert settled(queue) == {}  # B was accepted and is superseded; C is still to be sent.
    request = queue.next_request(2 * SOON)
    assert asked(request) == {p(0): C}
    queue.on_response(answer(request), 2 * SOON)
    assert settled(queue) == {4: Outcome.ACCEPTED}


@pytest.mark.covers("C9")
def test_an_assignment_asked_again_in_flight_waits_for_an_answer_of_its_own() -> None:
    """The replica may have been removed and added again between the two images."""
    queue = a_queue(an_image(1))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    request = queue.next_request(SOON)
    queue.enqueue(p(0), A, "test", SOON, ticket=2)
    queue.on_response(answer(request), SOON)
    assert settled(queue) == {1: Outcome.ACCEPTED}
    queue.on_response(answer(queue.next_request(2 * SOON)), 2 * SOON)
    assert settled(queue) == {2: Outcome.ACCEPTED}


@pytest.mark.covers("C9")
@pytest.mark.parametrize("response", [None, refused_whole(Errors.NOT_CONTROLLER)])
def test_an_unanswered_assignment_goes_again_unless_a_newer_one_waits(
    response: AssignReplicasToDirsResponse | None,
) -> None:
    queue = a_queue(an_image(3))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    queue.enqueue(p(1), A, "test", 0, ticket=2)
    queue.enqueue(p(2), A, "test", 0, ticket=3)
    queue.next_request(SOON)
    queue.enqueue(p(1), B, "test", SOON, ticket=4)
    queue.enqueue(p(2), A, "test", SOON, ticket=5)
    queue.on_response(response, SOON)
    request = queue.next_request(10 * SOON)
    assert asked(request) == {p(0): A, p(1): B, p(2): A}
    queue.on_response(answer(request), 10 * SOON)
    expected = {1: Outcome.ACCEPTED, 2: Outcome.SUPERSEDED} | dict.fromkeys((3, 4, 5), Outcome.ACCEPTED)
    assert settled(queue) == expected


@pytest.mark.covers("KIP-858 retries")
def test_requests_that_fail_are_repeated_after_twice_as_long_each_time() -> None:
    queue, now_ms, waits = a_queue(an_image(1)), SOON, []
    queue.enqueue(p(0), A, "test", 0)
    for _ in range(10):
        assert queue.next_request(now_ms) is not None
        queue.on_response(refused_whole(Errors.STALE_BROKER_EPOCH), now_ms)
        queue.enqueue(p(0), A, "test", now_ms)  # Does not cut the wait short.
        deadline = queue.next_deadline_ms
        assert deadline is not None
        waits.append(deadline - now_ms)
        now_ms = deadline
    assert waits == [200, 400, 800, 1600, 3200, 6400, *[MAX_BACKOFF_MS] * 4]
    queue.on_response(answer(queue.next_request(now_ms)), now_ms)
    queue.enqueue(p(0), B, "test", now_ms)
    assert queue.next_deadline_ms == now_ms + BATCHING_MS


def test_the_back_off_is_spread_by_the_edges_dice() -> None:
    queue = a_queue(an_image(1), jitter=0.98)
    queue.enqueue(p(0), A, "test", 0)
    queue.next_request(SOON)
    queue.on_response(None, SOON)
    assert queue.next_deadline_ms == SOON + 196


def test_entries_that_are_refused_go_again_and_ever_more_rarely_if_nothing_else_is_settled() -> None:
    queue, now_ms, waits = a_queue(an_image(2)), SOON, []
    queue.enqueue_all([p(0), p(1)], A, "test", 0)
    error_of = refusing(p(0), error=Errors.INVALID_REQUEST)
    for _ in range(4):
        request = queue.next_request(now_ms)
        assert p(0) in asked(request)
        queue.on_response(answer(request, error_of), now_ms)  # type: ignore[arg-type]
        deadline = queue.next_deadline_ms
        assert deadline is not None
        waits.append(deadline - now_ms)
        now_ms = deadline
    assert waits == [100, 200, 400, 800]


def test_a_partition_that_the_response_lacks_goes_again_and_one_that_was_not_asked_for_is_passed_over() -> None:
    queue = a_queue(an_image(3))
    queue.enqueue(p(0), A, "test", 0)
    request = queue.next_request(SOON)
    other = a_queue(an_image(3))
    other.enqueue(p(2), A, "test", 0)
    queue.on_response(answer(other.next_request(SOON)), SOON)
    assert queue.queued == 1
    request = queue.next_request(10 * SOON)
    queue.on_response(answer(request, without=[p(0)]), 10 * SOON)
    assert queue.queued == 1


def test_assignments_refused_for_two_minutes_are_logged() -> None:
    queue = a_queue(an_image(1))
    queue.enqueue(p(0), A, "why", 0)
    error_of = refusing(p(0), error=Errors.INVALID_REQUEST)
    queue.on_response(answer(queue.next_request(SOON), error_of), SOON)  # type: ignore[arg-type]
    assert queue.take_outputs() == []
    late_ms = NOISY_FAILURE_MS + 1
    queue.on_response(answer(queue.next_request(late_ms), error_of), late_ms)  # type: ignore[arg-type]
    assert queue.take_outputs() == [AssignmentsRefused(1, p(0), A, "why", Errors.INVALID_REQUEST)]


@pytest.mark.covers("KIP-858 priority", "KIP-858 priority into", "KIP-858 priority out of")
def test_entries_into_a_failed_directory_and_out_of_it_go_first_and_at_once() -> None:
    count = MAX_ASSIGNMENTS_PER_REQUEST + 100
    image = an_image(count, C)
    image[p(count - 1)] = B  # It is to move out of B.
    queue = a_queue(image)
    queue.enqueue_all([p(index) for index in range(count)], A, "test", 0)
    queue.enqueue(p(count - 2), B, "into", 0)
    queue.on_directory_failed(B)
    queue.enqueue(p(count - 3), LOST_UUID, "lost", 0)
    image[p(count - 4)] = B
    queue.enqueue(p(count - 4), A, "out of it, later", 0)
    first = asked(queue.next_request(0))
    urgent = {p(count - 1): A, p(count - 2): B, p(count - 3): LOST_UUID, p(count - 4): A}
    assert first.items() >= urgent.items()
    assert len(first) == MAX_ASSIGNMENTS_PER_REQUEST
    assert queue.holds_into(B) and not queue.holds_into(C)


def test_a_failed_directory_does_not_end_a_back_off() -> None:
    queue = a_queue(an_image(1))
    queue.enqueue(p(0), A, "test", 0)
    queue.next_request(SOON)
    queue.on_response(None, SOON)
    queue.on_directory_failed(A)
    assert queue.next_deadline_ms == SOON + 200
    assert queue.next_request(SOON + 199) is None
    assert asked(queue.next_request(SOON + 200)) == {p(0): A}


@pytest.mark.covers("KIP-858 dropped")
@pytest.mark.parametrize("is_told", [False, True], ids=["when it is sent", "when the image changes"])
def test_what_is_no_longer_true_is_dropped(is_told: bool) -> None:
    image = an_image(4)
    queue = a_queue(image)
    for index in range(4):
        queue.enqueue(p(index), A, "test", 0)
    del image[p(0)]  # Deleted, or reassigned to another broker.
    image[p(1)] = A  # The image has it already.
    image[p(2)] = B
    if is_told:
        queue.on_image([p(0), p(1), p(2)], [None, A, B])
        assert queue.queued == 2
    assert asked(queue.next_request(SOON)) == {p(2): A, p(3): A}


@pytest.mark.covers("KIP-858 dropped")
def test_an_image_that_lags_behind_what_was_sent_drops_nothing() -> None:
    """The controller has B, or will have it: the image with A is old."""
    image = an_image(1, A)
    queue = a_queue(image)
    queue.enqueue(p(0), B, "test", 0)
    queue.on_response(answer(queue.next_request(SOON)), SOON)
    queue.enqueue(p(0), A, "back", SOON)
    request = queue.next_request(2 * SOON)
    assert asked(request) == {p(0): A}
    queue.on_response(answer(request), 2 * SOON)
    queue.on_image([p(0)], [A])
    queue.enqueue(p(0), A, "needless", 2 * SOON)
    assert queue.next_request(3 * SOON) is None


def test_a_ticket_waits_for_the_controller_though_the_image_has_it_already() -> None:
    queue = a_queue(an_image(1, A))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    request = queue.next_request(SOON)
    assert asked(request) == {p(0): A} and settled(queue) == {}
    queue.on_response(answer(request), SOON)
    assert settled(queue) == {1: Outcome.ACCEPTED}


@pytest.mark.covers("KIP-858 cancelled locally")
def test_an_assignment_is_taken_back_only_if_the_controller_cannot_have_it() -> None:
    queue = a_queue(an_image(2))
    queue.enqueue(p(0), A, "test", 0, ticket=1)
    assert not queue.cancel(p(0), B)
    assert queue.cancel(p(0), A)
    assert settled(queue) == {1: Outcome.SUPERSEDED}
    assert queue.queued == 0
    queue.enqueue(p(1), A, "test", 0)
    queue.next_request(SOON)
    assert not queue.cancel(p(1), A)  # In flight.
    queue.on_response(None, SOON)
    assert not queue.cancel(p(1), A)  # The controller may have written it, and its answer was lost.
    assert queue.queued == 1


@pytest.mark.covers("KIP-858 cancelled locally")
def test_an_assignment_that_the_image_has_is_not_taken_back_while_it_is_asked_for_again() -> None:
    """The assignment in flight would be sent again if its answer were lost."""
    image = an_image(1, A)
    queue = a_queue(image)
    queue.enqueue(p(0), B, "test", 0)
    request = queue.next_request(SOON)
    queue.enqueue(p(0), B, "test", SOON)
    queue.on_response(answer(request), SOON)
    assert asked(queue.next_request(2 * SOON)) == {p(0): B}, "the image does not have it yet"
    image[p(0)] = B
    queue.on_image([p(0)], [B])
    queue.enqueue(p(0), B, "test", 2 * SOON)
    assert not queue.cancel(p(0), B)
    queue.on_response(None, 2 * SOON)
    assert queue.queued == 1


def test_the_oldest_entries_go_first_and_those_that_failed_behind_the_others() -> None:
    count = 2 * MAX_ASSIGNMENTS_PER_REQUEST
    queue = a_queue(an_image(count))
    for index in range(count):
        queue.enqueue(p(index), A, "test", 0)
    first = queue.next_request(0)
    assert [*asked(first)] == [p(index) for index in range(MAX_ASSIGNMENTS_PER_REQUEST)]
    queue.on_response(answer(first, lambda _each: Errors.INVALID_REQUEST), 0)
    assert [*asked(queue.next_request(200))] == [p(index) for index in range(MAX_ASSIGNMENTS_PER_REQUEST, count)]
