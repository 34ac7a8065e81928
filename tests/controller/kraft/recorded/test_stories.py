"""The answers and logs of a real controller, step by step, compared with kcore's decisions."""

import itertools
import json
from copy import deepcopy
from types import SimpleNamespace

import pytest

import cases
from controller.kraft.recorded import free_runs
from controller.kraft.recorded.differences import Difference
from controller.kraft.recorded.explanations import EXPLANATIONS, codes, explanation, unexplained
from controller.kraft.recorded.story_wire import Json
from controller.kraft.stories import Follower
from kcore.controller.kraft.departures import DEPARTURES, KAFKA_WAY, OFFLINE_LEADERS
from kcore.server.security import request_throttle

RELEASES = ["4.3.1", "4.1.2", "3.9.1"]  # With recordings of restarts and standbys.
OF_ONE_NODE = ["4.4.0", *RELEASES]
KCORE_WAY: frozenset[str] = frozenset()
WAYS = pytest.mark.parametrize("kafka_way", [KAFKA_WAY, KCORE_WAY], ids=["kafka's way", "kcore's way"])


@pytest.mark.long
@pytest.mark.recorded
@WAYS
@pytest.mark.parametrize("release", OF_ONE_NODE)
def test_every_step_is_decided_as_kafka_did(release: str, kafka_way: frozenset[str]) -> None:
    """Upon Kafka's own state; with all switches on Kafka's side literally, else but for what a departure explains."""
    found: list[Difference] = []
    for story in cases.load(f"controller_stories_{release}"):
        found += unexplained(list(Follower(story, kafka_way).differences()), story, kafka_way)
    assert not found, f"{len(found)} steps differ; the first: {found[0]}"


@pytest.mark.long
@pytest.mark.recorded
@WAYS
@pytest.mark.parametrize("release", OF_ONE_NODE)
def test_a_controller_runs_every_story_as_kafka_did(release: str, kafka_way: frozenset[str]) -> None:
    """On its own state and log; what a departure explains may differ, and where states part the story ends."""
    found: list[Difference] = []
    for story in cases.load(f"controller_stories_{release}"):
        found += unexplained(free_runs.differences(story, kafka_way), story, kafka_way)
    assert not found, f"{len(found)} steps differ; the first: {found[0]}"


@pytest.mark.long
@pytest.mark.recorded
@WAYS
@pytest.mark.parametrize("release", RELEASES)
def test_controllers_restart_and_take_over_as_kafkas_did(release: str, kafka_way: frozenset[str]) -> None:
    """One controller, and quorums of three: stopped and killed, from logs and snapshots, and at their resignation."""
    stories = cases.load(f"controller_turns_{release}")
    assert {len(each["nodes"]) for each in stories} == {1, 3}
    found: list[Difference] = []
    for story in stories:
        found += unexplained(all_differences(story, kafka_way), story, kafka_way)
    assert not found, f"{len(found)} steps differ; the first: {found[0]}"


# The comparison itself.


@pytest.fixture(scope="module")
def stories() -> list[Json]:
    return cases.load("controller_stories_4.3.1-public")[:60]


def all_differences(story: Json, kafka_way: frozenset[str]) -> list[Difference]:
    return [*Follower(story, kafka_way).differences(), *free_runs.differences(story, kafka_way)]


def test_a_slow_machine_throttles_no_client_that_kafka_did_not(
    stories: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stories with a request quota, where each look at the clock is an hour after the one before."""
    hours = itertools.count(step=3_600_000_000_000)
    monkeypatch.setattr(request_throttle, "time", SimpleNamespace(monotonic_ns=lambda: next(hours)))
    limited = [each for each in stories if "request_percentage" in json.dumps(each)][:4]
    assert limited
    for story in limited:
        assert not unexplained(free_runs.differences(story, KAFKA_WAY), story, KAFKA_WAY)


def test_a_code_that_no_departure_explains_fails(stories: list[Json]) -> None:
    story = deepcopy(stories[1])
    step = next(
        each for each in story["steps"] if each.get("api") == "BrokerRegistration" and not each["response"]["errorCode"]
    )
    step["response"]["errorCode"] = 42
    for way in (KAFKA_WAY, KCORE_WAY):
        place = story["steps"].index(step)
        assert {each.step for each in unexplained(all_differences(story, way), story, way)} == {place}


def test_a_record_too_few_fails(stories: list[Json]) -> None:
    story = deepcopy(stories[1])
    step = next(each for each in story["steps"] if each.get("api") == "CreateTopics" and each["batches"])
    del step["batches"][0]["records"][-1]
    found = unexplained(free_runs.differences(story, KAFKA_WAY), story, KAFKA_WAY)
    assert found and found[0].step == story["steps"].index(step)


def test_another_placement_fails(stories: list[Json]) -> None:
    for story in map(deepcopy, stories):
        for place, step in enumerate(story["steps"]):
            for free in step["free"]:
                if free["kind"] == "placement" and free["path"].endswith(".replicas"):
                    node = step
                    for part in free_runs.parts_of(free["path"])[:-1]:
                        node = node[part]
                    if len(node["replicas"]) > 1:
                        node["replicas"].reverse()
                        found = unexplained(free_runs.differences(story, KAFKA_WAY), story, KAFKA_WAY)
                        assert found and found[0].step == place
                        return
    raise AssertionError("no story has a placement")


@pytest.mark.long
def test_a_failure_of_kafka_explains_nothing_but_the_fitting_error(stories: list[Json]) -> None:
    """Where Kafka fell over, kcore may neither answer -1 nor write."""
    failures = {"unknown-config-operation", "unknown-recovery-state"}
    others, seen = KAFKA_WAY - failures, set()
    for story in stories:
        for each in Follower(story, others).differences():
            name = explanation(each, story, others)
            assert name in failures
            seen.add((name, each.what))
            assert explanation(each, story, KAFKA_WAY) is None
            worse = deepcopy(each)
            worse.found = worse.expected
            if each.what == "response":
                worse.found = {key: -1 if key == "errorCode" else value for key, value in each.expected.items()}
                assert -1 in codes(worse.found)
            assert explanation(worse, story, others) is None
            writes = Difference(each.story, each.step, each.api, "records", [], [{"type": "ConfigRecord"}])
            assert explanation(writes, story, others) is None
    assert seen == {(name, what) for name in failures for what in ("response", "renounced")}


@pytest.mark.long
def test_a_departure_that_is_switched_back_explains_nothing(stories: list[Json]) -> None:
    """By default kcore's way shows in the stories, and each difference is one of its departures."""
    seen = {}
    for story in stories:
        for each in Follower(story, KCORE_WAY).differences():
            name = explanation(each, story, KCORE_WAY)
            assert name is not None, each
            seen[name] = each, story
    assert {"clean-bounce-waits", "fences-one-by-one", "acls-fail-together"} <= {*seen}
    for name, (difference, story) in seen.items():
        assert explanation(difference, story, frozenset({name})) is None


@pytest.fixture(scope="module")
def turns() -> list[Json]:
    return cases.load("controller_turns_4.3.1-public")


def first_step(story: Json, kind: str) -> int | None:
    return next((place for place, each in enumerate(story["steps"]) if each["kind"] == kind), None)


def test_another_state_after_a_restart_fails(turns: list[Json]) -> None:
    """The state in the log must return: here Kafka would have forgotten a broker."""
    story = deepcopy(next(each for each in turns if first_step(each, "start") is not None))
    place = first_step(story, "start")
    step = next(
        each
        for each in story["steps"][place:]
        if each.get("api") == "BrokerHeartbeat" and not each["response"]["errorCode"]
    )
    step["response"]["errorCode"] = 102
    for found in (Follower(story, KAFKA_WAY).differences(), free_runs.differences(story, KAFKA_WAY)):
        assert {each.step for each in found} == {story["steps"].index(step)}


def test_another_record_in_a_snapshot_fails(turns: list[Json]) -> None:
    story = deepcopy(next(each for each in turns if first_step(each, "snapshot") is not None))
    place = first_step(story, "snapshot")
    record = next(each for each in story["steps"][place]["snapshot"]["records"] if each["type"] == "PartitionRecord")
    record["json"]["partitionEpoch"] += 1
    assert [each.step for each in free_runs.differences(story, KAFKA_WAY)] == [place]


def test_an_aborted_transaction_too_few_fails(turns: list[Json]) -> None:
    story, place = next(
        (deepcopy(story), place) for story in turns for place, step in enumerate(story["steps"]) if "leftover" in step
    )
    for batch in story["steps"][place]["batches"]:
        for record in batch["records"]:
            if record["type"] == "AbortTransactionRecord":
                record["json"]["reason"] = "another"
    for found in (Follower(story, KAFKA_WAY).differences(), free_runs.differences(story, KAFKA_WAY)):
        assert [each.step for each in found] == [place]


def test_another_leader_fails(turns: list[Json]) -> None:
    """The story says who is elected; that it was elected the log must show."""
    story = deepcopy(next(each for each in turns if len(each["nodes"]) == 3 and first_step(each, "resign") is not None))
    place = first_step(story, "resign")
    [message] = [each["json"] for batch in story["steps"][place]["batches"] for each in batch["records"]]
    message["leaderId"] = next(each for each in (3000, 3010, 3020) if each != message["leaderId"])
    assert [each.step for each in free_runs.differences(story, KAFKA_WAY)] == [place]


def test_what_a_standby_answers_is_explained_by_its_checks_alone(turns: list[Json]) -> None:
    story, place = next(
        (deepcopy(story), place)
        for story in turns
        for place, step in enumerate(story["steps"])
        if step["kind"] == "request" and "node" in step and (step["response"] or {}).get("errorCode") == 41
    )
    of_standbys = {"standbys-check-first"}
    for way, code, names in (
        (KAFKA_WAY, 31, {None}),
        (KAFKA_WAY - of_standbys, 31, of_standbys),
        (KAFKA_WAY - of_standbys, 102, {None}),
    ):
        story["steps"][place]["response"]["errorCode"] = code
        found = free_runs.differences(story, way)
        assert {each.step for each in found} == {place}
        assert {explanation(each, story, way) for each in found} == names


@pytest.mark.recorded
@pytest.mark.parametrize("release", RELEASES)
def test_kafkas_standbys_are_followed_to_the_letter(release: str) -> None:
    """Stories in which standbys are often asked: with all switches on no answer of theirs differs."""
    asked = set()
    for story in cases.load(f"controller_turns_{release}-standbys"):
        of_standbys = asked_of_standbys(story)
        asked |= {story["steps"][place]["api"] for place in of_standbys}
        assert not [each for each in free_runs.differences(story, KAFKA_WAY) if each.step in of_standbys]
    assert len(asked) > 20


CHECKED_FIRST = {"CreateAcls", "DeleteTopics", "IncrementalAlterConfigs", "CreateTopics"}


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "release", "wanted"),
    [
        ("standbys-check-first", "4.3.1", CHECKED_FIRST),
        pytest.param("standbys-check-first", "4.1.2", CHECKED_FIRST, marks=pytest.mark.long),
        pytest.param("standbys-check-first", "3.9.1", CHECKED_FIRST, marks=pytest.mark.long),
        ("standbys-name-no-leader", "4.3.1", {"DescribeQuorum"}),
        ("standbys-name-no-leader", "4.1.2", {"RemoveRaftVoter"}),
    ],
)
def test_what_a_standby_does_by_default_is_its_departure_alone(name: str, release: str, wanted: set[str]) -> None:
    way, found = KAFKA_WAY - {name}, set()
    for story in cases.load(f"controller_turns_{release}-standbys"):
        of_standbys = asked_of_standbys(story)
        for each in free_runs.differences(story, way):
            if each.step in of_standbys:
                assert explanation(each, story, way) == name, each
                found.add(each.api)
    assert wanted <= found


def asked_of_standbys(story: Json) -> set[int]:
    return {place for place, step in enumerate(story["steps"]) if step["kind"] == "request" and "node" in step}


def test_an_election_at_once_explains_no_other_difference() -> None:
    """4.4.0-119: an assignment brings a replica online, and kcore elects it."""
    way = KAFKA_WAY - {OFFLINE_LEADERS}
    story = next(each for each in cases.load("controller_stories_4.4.0-public") if each["story"] == "4.4.0-119")
    [found] = Follower(story, way).differences()
    assert (explanation(found, story, way), explanation(found, story, KAFKA_WAY)) == (OFFLINE_LEADERS, None)
    for name, value in (("directories", []), ("isr", [1])):
        worse = deepcopy(found)
        next(each for each in worse.found if "leader" in each["json"])["json"][name] = value
        assert explanation(worse, story, way) is None
    less = deepcopy(found)
    del less.found[0]
    assert explanation(less, story, way) is None


def test_explanations_are_of_the_table() -> None:
    assert {*EXPLANATIONS} <= {*DEPARTURES}
    assert all(row.kafka and row.kcore and row.why for row in DEPARTURES.values())
    assert {*DEPARTURES} == KAFKA_WAY
