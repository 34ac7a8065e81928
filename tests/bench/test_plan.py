import re
from pathlib import Path

import pytest

from kcore.errors import PlanError
from kcore.measure.bench.bench_plan import Plan, WorkloadPlan
from kcore.measure.bench.builtin import BUILT_IN
from kcore.measure.workloads.cell import Cell

GOOD = """
[[workload]]
name = "codec"
partitions = [10, 20]
brokers = [3]

[[workload]]
name = "election"
repeat = 1
seed = 7
"""


def test_a_plan_has_a_cell_for_every_size_and_repetition_the_largest_first():
    plan = Plan.parse(GOOD)
    assert plan.workloads[0] == WorkloadPlan("codec", (10, 20), (3,), 3, 1)
    assert plan.cells() == [
        Cell("election", 100_000, 100, 7, 0),
        *(Cell("codec", 20, 3, 1, nth) for nth in range(3)),
        *(Cell("codec", 10, 3, 1, nth) for nth in range(3)),
    ]


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_plans_print_as_plans_that_are_the_same(name: str):
    plan = Plan.of(name)
    assert Plan.parse(plan.to_toml(), name) == plan
    assert plan.cells()


def test_a_cluster_file_is_part_of_the_plan():
    plan = Plan.parse('cluster = "some \\"dump\\".txt"\n' + GOOD)
    assert plan.cluster == 'some "dump".txt'
    assert Plan.parse(plan.to_toml()) == plan


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.toml: 'workload' must be one or more [[workload]] tables"),
        ("workload = 3", "p.toml, line 1: 'workload' must be one or more"),
        ("[workload]\nname = 'codec'", "'workload' must be one or more"),
        ("workload = [1]", "p.toml, line 1: 'workload' must be [[workload]] tables, not 1"),
        ("[[workload]", "p.toml: not TOML: "),
        ("cluster = 1\n" + GOOD, "p.toml, line 1: 'cluster' must be a file name"),
        ("\nsped = 1\n" + GOOD, "p.toml, line 2: unknown key 'sped'; a plan has workload, cluster"),
        (GOOD + "sped = 1", "p.toml, workload 2, line 11: unknown key 'sped'"),
        (GOOD + "'sped' = 1", "p.toml, workload 2, line 11: unknown key 'sped'"),
        (GOOD + "[[workload]]\nbrokers = [3]", "p.toml, workload 3, line 11: 'name' is missing"),
        ("[[workload]]\nname = 'codecs'", "line 2: 'name' must be one of codec, election"),
        ("[[workload]]\nname = []", "line 2: 'name' must be one of codec, election"),
        (GOOD + "partitions = 5", "'partitions' must be a list of integers from 1 to 100,000,000, not 5"),
        (GOOD + "partitions = []", "'partitions' must be a list of integers from 1 to 100,000,000, not []"),
        (GOOD + "partitions = [0]", "'partitions' must be a list of integers from 1"),
        (GOOD + "partitions = [1.5]", "'partitions' must be a list of integers from 1"),
        (GOOD + "brokers = [true]", "'brokers' must be a list of integers from 3 to 32,767, not [True]"),
        (GOOD + "brokers = [2]", "'brokers' must be a list of integers from 3"),
        (GOOD + "brokers = [32768]", "'brokers' must be a list of integers from 3"),
        ("[[workload]]\nname = 'codec'\nrepeat = 0", "p.toml, workload 1, line 3: 'repeat' must be an integer from 1"),
        ("[[workload]]\nname = 'codec'\nseed = -1", "'seed' must be an integer from 0"),
        (f"[[workload]]\nname = 'codec'\nrepeat = 1000\npartitions = {list(range(1, 102))}", "101,000 cells are more"),
        (
            f"[[workload]]\nname = 'codec'\nrepeat = 1000\npartitions = {list(range(1, 2001))}\n"
            f"brokers = {list(range(3, 2003))}",
            "4,000,000,000 cells are more than 100,000",
        ),
    ],
)
def test_what_a_plan_may_not_say_is_named_with_its_place(text: str, said: str):
    with pytest.raises(PlanError) as caught:
        Plan.parse(text, "p.toml")
    assert said in str(caught.value)


def test_options_replace_what_every_workload_says():
    plan = Plan.parse(GOOD).with_options(partitions=(5,), brokers=None, repeat=2, seed=None)
    assert [workload.partitions for workload in plan.workloads] == [(5,), (5,)]
    assert [workload.brokers for workload in plan.workloads] == [(3,), (100,)]
    assert [workload.seed for workload in plan.workloads] == [1, 7]
    with pytest.raises(PlanError, match="'repeat' must be an integer"):
        plan.with_options(repeat=0)


def test_a_plan_comes_from_a_file_a_mapping_or_a_name(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(GOOD)
    assert Plan.of(file).workloads == Plan.parse(GOOD).workloads
    assert Plan.of({"workload": [{"name": "codec"}]}).workloads == (WorkloadPlan("codec"),)
    assert Plan.of(Plan.of("smoke")) == Plan.of("smoke")
    with pytest.raises(PlanError, match="neither a built-in plan"):
        Plan.of("nothing-of-the-kind")
    with pytest.raises(PlanError, match="plan, workload 1: unknown key 'x'"):
        Plan.of({"workload": [{"name": "codec", "x": 1}]})


CLUSTER = {
    "replication_factor": 5,
    "topics": 10,
    "racks": 2,
    "isr": "mixed",
    "brokers_gone": 0.5,
    "warm_up_s": 0.5,
    "duration_s": 2.0,
}


def test_what_a_plan_says_of_the_cluster_is_in_its_cells_and_in_its_text():
    plan = Plan.of({"workload": [{"name": "election", "partitions": [100], "brokers": [10], "repeat": 1} | CLUSTER]})
    assert plan.cells() == [Cell("election", 100, 10, 1, 0, **CLUSTER)]
    assert Plan.parse(plan.to_toml()).workloads == plan.workloads
    assert Plan.parse(GOOD).with_options(**CLUSTER, brokers=(10,), partitions=(100,)).cells()[0] in [
        Cell("codec", 100, 10, 1, 0, **CLUSTER),
        Cell("election", 100, 10, 7, 0, **CLUSTER),
    ]
    [cell] = Plan.of({"workload": [{"name": "codec", "partitions_per_topic": 4, "repeat": 1}]}).cells()
    assert cell.topics == 25_000


def test_a_workload_without_a_cluster_leaves_such_options_out_and_refuses_such_keys():
    entry = {"name": "divergence", "partitions": [10], "brokers": [3], "repeat": 1}
    assert Plan.of({"workload": [entry]}).with_options(racks=2).cells() == [Cell("divergence", 10, 3, 1, 0)]
    with pytest.raises(PlanError, match="plan, divergence: it has logs and no cluster, so no 'racks'"):
        Plan.of({"workload": [entry | {"racks": 2}]})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"replication_factor": 4}, "'replication_factor' 4 is more than the 3 brokers"),
        ({"replication_factor": 33}, "an integer from 1 to 32, not 33"),
        ({"racks": 4}, "'racks' 4 is more than the 3 brokers"),
        ({"topics": 11}, "'topics' 11 is more than the 10 partitions"),
        ({"topics": 5, "partitions_per_topic": 2}, "give 'topics' or 'partitions_per_topic', not both"),
        ({"brokers_gone": 0.5}, "'brokers_gone' 0.5 is 2 of 3 brokers, and 2 must stay"),
        ({"brokers_gone": 1}, "a share of the brokers, from 0 to 0.99, not 1"),
        ({"isr": "mixd"}, "'isr' must be one of in-sync, mixed, not 'mixd'; did you mean 'mixed'?"),
        ({"warm_up_s": -1}, "'warm_up_s' must be seconds from 0 to 3,600, not -1"),
        ({"duration_s": True}, "'duration_s' must be seconds from 0 to 3,600, not True"),
        ({"replication_facto": 3}, "unknown key 'replication_facto'; did you mean 'replication_factor'?"),
    ],
)
def test_clusters_that_cannot_be(keys: dict[str, object], said: str):
    with pytest.raises(PlanError, match=re.escape(said)):
        Plan.of({"workload": [{"name": "codec", "partitions": [10], "brokers": [3]} | keys]})


def test_a_cluster_file_has_replicas_topics_and_racks_of_its_own():
    entry = {"name": "codec", "partitions": [10], "brokers": [3], "repeat": 1}
    [cell] = Plan.of({"cluster": "file", "workload": [entry | {"isr": "mixed"}]}).cells()
    assert (cell.replication_factor, cell.topics, cell.racks, cell.isr) == (None, None, None, "mixed")
    with pytest.raises(PlanError, match="'racks' is of generated clusters, and the plan has a cluster file"):
        Plan.of({"cluster": "file", "workload": [entry | {"racks": 2}]})
