"""`kcore whatif`: its questions, its files, and one line for every bad input."""

import json
from pathlib import Path

import pytest

from cli.invoking import kcore
from kcore import schema as s
from kcore.cli.whatif.whatif_answers import outcomes_answer, pairs_answer, restart_answer
from kcore.cli.whatif.whatif_page import render
from kcore.cli.whatif.whatif_size import at_size
from kcore.measure.workloads.generate import generate
from kcore.metadata.image.image import ClusterImage
from kcore.types import Uuid
from kcore.whatif import WhatIf, what_if

SAMPLES = Path(__file__).parents[1] / "data/samples"
DUMP = SAMPLES / "zk39-scenario/3-broker3-back.zk.txt"
FENCED = SAMPLES / "kraft43/controller-3003/__cluster_metadata-0"


def rows(*options: object) -> list[dict[str, object]]:
    done = kcore("whatif", DUMP, "--json", *options)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_broker_of_a_dump() -> None:
    found = rows("--min-isr", "2")
    assert [each["scenario"] for each in found] == ["broker 1", "broker 2", "broker 3"]
    assert [each["moved_leaders"] for each in found] == [2, 2, 0]
    shown = kcore("whatif", DUMP)
    assert shown.stdout.startswith("now: 0 without a leader, 0 under min ISR") and "broker 3" in shown.stdout


def test_one_scenario_lists_its_partitions() -> None:
    done = kcore("whatif", DUMP, "--broker", "2", "--broker", "3", "--min-isr", "2")
    assert done.exit_code == 0
    assert "without a leader: 1" in done.stdout and "under min ISR: 4" in done.stdout


def test_scenarios_of_a_file_and_pairs_agree(tmp_path: Path) -> None:
    pairs = rows("--pairs", "--min-isr", "2")
    listed = [{"brokers": [each["broker"], each["other_broker"]]} for each in pairs]
    (tmp_path / "s.json").write_text(json.dumps({"scenarios": listed}))
    single = rows("--scenarios", tmp_path / "s.json", "--min-isr", "2")
    names = ("without_leader", "under_min_isr", "at_risk", "moved_leaders", "most_leaders")
    assert [[each[name] for name in names] for each in pairs] == [[each[name] for name in names] for each in single]


def test_a_question_about_a_cluster_that_has_grown() -> None:
    sizes = ("--partitions", "40", "--brokers", "6")
    found = rows(*sizes, "--min-isr", "2")
    assert [each["scenario"] for each in found] == [f"broker {broker}" for broker in range(1, 7)]
    assert sum(each["partitions"] for each in found) == 10 * sum(each["partitions"] for each in rows())
    assert len(rows(*sizes, "--pairs")) == 15


_COPIES = ("", "-1", "-2", "-3", "-4")


def test_topics_of_a_grown_cluster_keep_their_settings() -> None:
    image = ClusterImage()
    for topic, least in (("one", "1"), ("two", "2")):
        image.apply(s.TopicRecord(name=topic, topic_id=Uuid(topic.encode() * 5 + b".")))
        place = {"topic_id": Uuid(topic.encode() * 5 + b"."), "replicas": [1, 2], "isr": [1, 2], "leader": 1}
        image.apply(s.PartitionRecord(partition_id=0, **place))
        image.apply(s.ConfigRecord(resource_type=2, resource_name=topic, name="min.insync.replicas", value=least))
    for broker in (1, 2):
        image.apply(s.RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, fenced=False))
    grown = at_size(what_if(image), "10", "4", 1).cluster
    least = {state.topic: int(grown.min_isr__p[row]) for row, state in enumerate(grown.table)}
    assert least == {f"{topic}{copy}": 1 + (topic == "two") for topic in ("one", "two") for copy in _COPIES}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--partitions", "many"), "--partitions: 'many' is no count such as 300 or 1M"),
        (("--partitions", "0"), "--partitions 0 is not from 1 to 100,000,000"),
        (("--brokers", "10,20"), "--brokers: '10,20' is no count"),
        (("--brokers", "40k"), "--brokers 40k is not from 1 to 32,767"),
        (("--brokers", "2"), "the cluster has 3 brokers: 2 are too few"),
    ],
)
def test_sizes_that_cannot_be(options: tuple[str, ...], text: str) -> None:
    done = kcore("whatif", DUMP, *options)
    assert done.exit_code == 2 and text in done.stderr and done.stderr.count("\n") == 1


def test_a_restart_plan_has_a_step_for_each_broker() -> None:
    assert [(each["broker"], each["is_safe"]) for each in rows("--restart-plan")] == [(1, True), (2, True), (3, True)]
    shown = kcore("whatif", DUMP, "--restart-plan", "--min-isr", "2")
    assert "3 steps (no plan has fewer)" in shown.stdout


def test_a_question_after_a_reassignment(tmp_path: Path) -> None:
    state = next(iter(what_if_of_dump().cluster.table))
    moved = {"topic": state.topic, "partition": state.partition, "replicas": [3]}
    (tmp_path / "m.json").write_text(json.dumps({"version": 1, "partitions": [moved]}))
    before, after = rows("--broker", "3"), rows("--broker", "3", "--reassignment", tmp_path / "m.json")
    assert (before[0]["without_leader"], after[0]["without_leader"]) == (0, 1)


def what_if_of_dump() -> WhatIf:
    from kcore.cli.files.cluster_file import cluster_in

    return what_if(cluster_in(str(DUMP)).image)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--broker", "99"], "no broker 99 in the cluster; there are 1, 2, 3"),
        (["--rack", "x"], "no broker is in rack 'x'; no broker has a rack"),
        (["--directory", "x"], "a log directory is the directory.id of its meta.properties"),
        (["--each", "brokr"], "--each brokr: give one of broker, rack, directory; did you mean 'broker'?"),
        (["--each", "rack"], "--each rack: no live broker has a rack"),
        (["--pairs", "--restart-plan"], "--pairs and --restart-plan: ask one question at a time"),
        (["--release", "9"], "no level '9'"),
        (["--release", ""], "'--release': the value is empty"),
        (["--min-isr", str(2**31)], "'--min-isr'"),
        (["--master", "local[*]"], "--master is for --pairs"),
        (["--scenarios", "nowhere.json"], "nowhere.json"),
        (["--reassignment", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_options_get_one_line(options: list[str], text: str) -> None:
    done = kcore("whatif", DUMP, *options)
    assert done.exit_code == 2 and text in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "given", "text"),
    [
        ("--scenarios", "[", "the scenarios are not JSON"),
        ("--scenarios", "{}", 'scenarios are JSON of the form {"scenarios"'),
        ("--scenarios", '{"scenarios": [3]}', "scenario 1 is an object with"),
        ("--scenarios", '{"scenarios": [{"brokrs": [1]}]}', "unknown key 'brokrs'; did you mean 'brokers'?"),
        ("--scenarios", '{"scenarios": [{"brokers": 1}]}', "scenario 1: brokers is a list, not 1"),
        ("--scenarios", '{"scenarios": [{}]}', "scenario 1: nothing is lost"),
        ("--scenarios", '{"scenarios": [{"brokers": [99]}]}', "f.json: no broker 99 in the cluster"),
        (
            "--scenarios",
            '{"scenarios": [{"brokers": [1], "name": "\\ud800"}]}',
            "f.json: scenario 1: a rack and the name",
        ),
        ("--reassignment", "[", "the reassignment is not JSON"),
        ("--reassignment", "{}", "a reassignment is JSON of the form"),
        ("--reassignment", '{"version": 2, "partitions": [1]}', "the version of a reassignment is 1, not 2"),
        (
            "--reassignment",
            '{"partitions": [{"topic": "x", "partition": 0, "replicas": [1, 1]}]}',
            "different replicas",
        ),
        (
            "--reassignment",
            '{"partitions": [{"topic": "x", "partition": 0, "replicas": [1]}]}',
            "f.json: the reassignment names",
        ),
    ],
)
def test_bad_files_get_one_line(option: str, given: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(given)
    done = kcore("whatif", DUMP, option, tmp_path / "f.json")
    assert done.exit_code == 2 and text in done.stderr and done.stderr.count("\n") == 1


def test_a_cluster_without_live_brokers() -> None:
    for options in ([], ["--pairs"], ["--restart-plan"]):
        done = kcore("whatif", FENCED, *options)
        assert done.exit_code == 2 and "no broker of the cluster is live" in done.stderr


def test_results_are_written(tmp_path: Path) -> None:
    done = kcore("whatif", DUMP, "--pairs", "--min-isr", "2", "--out", tmp_path / "out")
    assert done.exit_code == 0
    lines = (tmp_path / "out/results.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["broker"] for line in lines] == [1, 1, 2]
    assert (tmp_path / "out/results.parquet").stat().st_size
    assert "brokers 2 and 3" in (tmp_path / "out/report.html").read_text("utf-8")


def test_the_page_has_a_heat_map_and_a_map_of_racks() -> None:
    asked = what_if(generate(partitions=400, brokers=130, replication_factor=2, topics=4, seed=1, racks=3), min_isr=2)
    pairs = render(pairs_answer(asked, asked.pairs()), {})
    assert "brokers 0 to 2 and" in pairs and pairs.count("<svg") == 2
    brokers = render(outcomes_answer(asked, asked.each_broker()), {})
    assert "broker 7, rack-1" in brokers and brokers.count("<svg") == 1
    assert "rolling restart" in render(restart_answer(asked), {})
