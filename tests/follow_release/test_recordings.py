"""kcore beside recordings of Kafka: equal as they are, and different where a recording is changed."""

import copy
import gzip
import json
from pathlib import Path

import pytest

import cases
from follow_release import decisions, golden, stories
from follow_release.differences import Difference
from follow_release.facts import Json


def vectors(api: str) -> list[Json]:
    """Recorded bytes of a request."""
    return [each for each in cases.load("golden-4") if each["api"] == api and each["type"] == "request"]


def kinds(found: list[Json]) -> set[tuple[str, str]]:
    """Kind and subject of each difference."""
    return {(each.kind, each.subject) for each in golden.differences(found)}


def test_golden_bytes_of_kafka_are_kcores() -> None:
    assert kinds(cases.load("golden-4")[::20]) == set()


def test_golden_bytes_that_kcore_lacks_or_reads_otherwise() -> None:
    newest = vectors("BrokerHeartbeat")[-1]
    subject = f"BrokerHeartbeatRequest v{newest['version']}"
    assert kinds([{**newest, "version": 99}]) == {("kcore lacks the version", "BrokerHeartbeatRequest")}
    assert kinds([{**newest, "api": "Unheard"}]) == {("kcore lacks the message", "UnheardRequest")}
    assert kinds([{**newest, "hex": newest["hex"][:6]}]) == {("kcore cannot read it", subject)}
    other = {**newest, "json": {**newest["json"], "brokerId": 5}}
    assert kinds([other]) == {("JSON differs", subject), ("bytes differ", subject)}
    assert kinds([{**newest, "unknownTags": [[99, "00"]]}]) == {("unknown tags differ", subject)}


def test_a_version_that_kcore_lacks_is_one_difference() -> None:
    assert len(list(golden.differences([{**each, "version": 99} for each in vectors("BrokerHeartbeat")]))) == 1


@pytest.mark.parametrize("stem", [decisions.CHANGES, decisions.PLACEMENT])
def test_decisions_of_kafka_are_kcores(stem: str) -> None:
    found = cases.load(f"{stem}_4.1.2")[:300]
    assert list(decisions.differences(stem, found, "4.1.2")) == []
    assert list(decisions.changed(stem, found, found)) == []


def test_another_decision_is_found() -> None:
    found = [case for case in cases.load("kraft_pcb_4.1.2")[:50] if case["out"] is not None][:1]
    changed = copy.deepcopy(found)
    changed[0]["out"]["leader"] = 99
    [difference] = decisions.differences(decisions.CHANGES, changed, "4.1.2")
    assert (difference.kind, difference.subject) == ("kcore decides otherwise", f"kraft_pcb {found[0]['op']}")
    leader = found[0]["out"]["leader"]
    [difference] = decisions.changed(decisions.CHANGES, found, changed)
    assert difference.what == f"case {found[0]['i']}, out.leader: {leader} -> 99"


def test_the_newest_level_is_asked_again_at_the_releases_own() -> None:
    levels = {case["metadata_version"] for case in decisions.inputs(decisions.CHANGES, "4.2-IV1")}
    assert "IBP_4_2_IV1" in levels and "IBP_4_1_IV1" not in levels and "IBP_3_3_IV3" in levels


def recorded_story() -> Json:
    """The first of them."""
    [path] = cases.directory.rglob("controller_stories_4.3.1*.jsonl.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        story: Json = json.loads(next(lines))
    return story


def test_steps_of_a_story_that_kcore_decides_otherwise() -> None:
    story = recorded_story()
    assert list(stories.differences([story], "4.3.1")) == []
    place, step = next(
        (k, step)
        for k, step in enumerate(story["steps"])
        if step.get("api") == "BrokerHeartbeat" and step["response"] and "errorCode" in step["response"]
    )
    step["response"]["errorCode"] = 77
    [difference] = stories.differences([story], "4.3.1")
    assert isinstance(difference, Difference)
    assert (difference.kind, difference.subject) == ("response differs", "BrokerHeartbeat")
    assert f"{story['story']}/{place}" in difference.what and "Kafka 77" in difference.what


def test_a_story_at_a_level_that_kcore_lacks_is_a_difference() -> None:
    story = recorded_story()
    for batch in story["bootstrap"]:
        for record in batch["records"]:
            if record["json"].get("name") == "metadata.version":
                record["json"]["featureLevel"] = 99
    found = list(stories.differences([story], "4.3.1"))
    assert found and found[0].kind.startswith("kcore fails: ")


def test_recording_goes_on_behind_what_the_file_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def recorded(release: str, first: int, count: int, jars: str, levels: list[str]) -> list[Json]:
        asked.append((first, count))
        return [{"story": f"{release}-{first + k}"} for k in range(count)]

    monkeypatch.setattr("recorder.compared.recorded", recorded)
    path = tmp_path / "stories.jsonl.gz"
    assert list(stories.record(path, "9.9.9", 2, "", [])) == ["9.9.9-1", "9.9.9-2"]
    assert list(stories.record(path, "9.9.9", 3, "", [])) == ["9.9.9-3"]
    assert list(stories.record(path, "9.9.9", 3, "", [])) == []
    assert asked == [(1, 2), (3, 1)]
    assert [each["story"] for each in stories.read(path)] == ["9.9.9-1", "9.9.9-2", "9.9.9-3"]
