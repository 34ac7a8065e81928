"""ci/follow-release with a release that kcore has: its own facts, and nothing that kcore does otherwise."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import cases
from follow_release.follow import STEPS, Follow
from follow_release.report import StepResult
from follow_release.skeleton import module_name
from kcore.releases.known import RELEASES

STORIES = 2
Change = tuple[str, str, str]


class Pair(NamedTuple):
    """A release and the one before it, recordings of the release, and what the release changed."""

    release: str
    older: str
    recordings: str  # As the files of tests/data/wire name them.
    changes: set[Change]
    changed_class: str
    decisions: set[str]  # Kinds of differences.


PAIRS = (
    Pair(
        "4.4.0",
        "4.3.1",
        "44",
        {
            ("messages", "UnregisterControllerRecord", "new"),
            ("versions", "ApiVersionsRequest", "validVersions"),
            ("errors", "136 CONTROLLER_ID_NOT_REGISTERED", "new"),
            ("levels", "4.4-IV2", "new"),
            ("features", "share.version", "production"),
            ("settings", "server errors.deadletterqueue.topic.name.prefix", "new"),
        },
        "org.apache.kafka.controller.AclControlManager",
        set(),
    ),
    Pair(
        "4.3.1",
        "4.1.2",
        "4x",
        {
            ("versions", "BrokerHeartbeatRequest", "validVersions"),
            ("fields", "RegisterBrokerRecord.CordonedLogDirs", "new"),
            ("apis", "AddRaftVoter", "versions"),
            ("levels", "metadata.version", "latest_production"),
            ("features", "streams.version", "production"),
            ("settings", "server cordoned.log.dirs", "new"),
            ("defaults", "server listeners", "type"),
        },
        "org.apache.kafka.controller.PartitionReassignmentReplicas",
        {"Kafka decides otherwise"},  # Some reassignments complete earlier; another text for fenced brokers.
    ),
)
FACTS = [
    *("name", "version_names", "oldest_version", "default_version", "changed_metadata", "features", "features_since"),
    *("known_features", "apis"),
]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: pair.release)
def pair(request: pytest.FixtureRequest) -> Pair:
    found: Pair = request.param
    return found


@pytest.fixture(scope="module")
def out(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run."""
    folder = tmp_path_factory.mktemp("follow")
    Follow(pair.release, pair.older, pair.release, folder, STORIES, False, print).run(STEPS)
    return folder


def result(out: Path, step: str) -> StepResult:
    """The result of a step."""
    found = StepResult.read(out / "steps" / f"{step}.json")
    assert found is not None
    return found


def test_the_schemas_of_the_jars_are_the_recorded_ones(pair: Pair, out: Path) -> None:
    found = json.loads((out / f"facts-{pair.release}.json").read_text())["messages"]
    recorded = json.loads((cases.DATA / "wire" / f"schemas-{pair.recordings}.json").read_text())["messages"]
    assert len(recorded) > 200
    for schema in recorded:
        read = {"fields": [], **found[schema["name"]]}  # A removed message has no fields.
        assert without(read, "class", "zeroCopy") == schema


def without(value: Any, *names: str) -> Any:
    """A schema without these members, which the recording lacks."""
    if isinstance(value, dict):
        return {key: without(each, *names) for key, each in value.items() if key not in names}
    return [without(each, *names) for each in value] if isinstance(value, list) else value


def test_the_changes_are_those_that_the_release_made(pair: Pair, out: Path) -> None:
    changes = {(each.kind, each.subject, each.what) for step in STEPS for each in result(out, step).changes}
    assert pair.changes <= changes
    assert pair.changed_class in {each[1] for each in changes}


def test_every_field_of_every_version_is_in_the_golden_bytes(pair: Pair, out: Path) -> None:
    with gzip.open(out / f"golden-{pair.release}.jsonl.gz", "rt", encoding="utf-8") as lines:
        vectors = [json.loads(line) for line in lines]
    found: dict[tuple[str, str, int], set[str]] = {}
    for each in vectors:
        found.setdefault((each["api"], each["type"], each["version"]), set()).update(names_in(each["json"]))
    for each in cases.load(f"golden-{pair.recordings}"):
        assert names_in(each["json"]) <= found[each["api"], each["type"], each["version"]]


def names_in(value: Any) -> set[str]:
    """The names of all fields in JSON."""
    if isinstance(value, list):
        return {name for each in value for name in names_in(each)}
    return {*value} | {name for each in value.values() for name in names_in(each)} if isinstance(value, dict) else set()


@pytest.mark.parametrize("step", ["golden", "stories"])
def test_kcore_does_as_the_release(out: Path, step: str) -> None:
    assert result(out, step).differences == []
    assert result(out, step).notes


def test_the_decisions_that_the_release_changed_are_kcores(pair: Pair, out: Path) -> None:
    assert {each.kind for each in result(out, "decisions").differences} == pair.decisions


@pytest.mark.parametrize("fact", FACTS)
def test_the_skeleton_has_the_facts_of_kcores_module(pair: Pair, out: Path, fact: str) -> None:
    found: dict[str, Any] = {}
    exec((out / f"{module_name(pair.release)}.py").read_text(), found)
    assert getattr(found["RELEASE"], fact) == getattr(RELEASES[pair.release], fact)


def test_the_report_has_every_step(pair: Pair, out: Path) -> None:
    text = (out / "report.md").read_text()
    assert all(f"| {step} |" in text for step in STEPS)
    assert json.loads((out / "report.json").read_text())["release"] == pair.release
