from pathlib import Path

import pytest

from kcore.bench.builtin import BUILT_IN
from kcore.bench.plan import Plan, WorkloadPlan
from kcore.errors import PlanError
from kcore.workloads.cell import Cell

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
