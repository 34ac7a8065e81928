"""`kcore sim raft`, and a campaign's rows over Spark."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.cli.measure import sim_page, sim_planted
from kcore.cli.measure.sim_command import summary
from kcore.measure.report import result_files
from kcore.sim.raft.campaign import Campaign, Row, rows, table_of
from kcore.sim.raft.hunting import CAUGHT, NOT_CAUGHT, Hunt
from kcore.sim.raft.planted import PLANTED
from kcore.spark.session import start
from kcore.spark.simulation import pieces_of, simulate


def kcore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", "raft", *arguments])


def test_seeds_over_processes(tmp_path: Path) -> None:
    done = kcore("--seeds", "3", "--events", "400", "--processes", "2", "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    kept = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["seed"] for row in told] == [row["seed"] for row in kept] == [1, 2, 3]
    assert [row["hash"] for row in told] == [row["hash"] for row in kept]
    assert all({"events", "committed", "simulated_ms", "seconds"} <= row.keys() for row in told)
    assert "3 seeds, 0 failed" in done.stderr and "fault: " in done.stderr
    assert "All invariants held in 3 seeds." in (tmp_path / "report.html").read_text()


def test_the_summary_says_how_much_work_the_events_were() -> None:
    rows: list[Row] = [
        {"invariant": None, "events": 20_000, "committed": 1_500, "simulated_ms": 1_800_000, "seconds": 1.0},
        {"invariant": "SingleLeader", "events": 40_000, "committed": 300, "simulated_ms": 5_400_000, "seconds": 2.0},
    ]
    told = summary(rows, 2.5)
    assert told.startswith("2 seeds, 1 failed: 60,000 events, 1,800 records committed, 2.0 simulated hours in 2.5 s;")
    assert told.endswith("a minute a core: 1.20 million events, 36,000 records, 40.0 simulated hours")


def a_row(seed: int, **given: object) -> Row:
    figures = {"events": 100 + seed, "committed": seed, "epochs": 2, "simulated_ms": 5_000, "seconds": 0.5}
    rest = {"invariant": None, "text": None, "story": [], "replay": f"again {seed}", "coverage": [("fault: <x>", seed)]}
    return {"seed": seed, **figures, **rest, **given}


def test_the_page_tells_failures_with_their_stories_and_what_happened() -> None:
    failed = a_row(7, invariant="SingleLeader", text="two <leaders>", story=["event <1>", "event 2"])
    page = sim_page.render([a_row(1), failed], "told", {"when": "today", "events": 100})
    assert "1 seeds failed." in page and "seed 7: SingleLeader: two &lt;leaders&gt;" in page
    assert "event &lt;1&gt;\nevent 2\n\nagain: again 7" in page
    assert "<li>records committed: 1, 7</li>" in page and "fault: &lt;x&gt;" in page
    assert page.index(">7</td>") < page.index(">1</td>")  # Those that failed come first.
    good = sim_page.render([a_row(1), a_row(2)], "told", {})
    assert "All invariants held in 2 seeds." in good and 'class="bad"' not in good


def test_a_histogram_is_drawn_of_many_values_and_few_are_listed() -> None:
    six = sim_page.render([a_row(seed) for seed in (3, 1, 2, 6, 5, 4)], "told", {})
    assert "<li>events: 101, 102, 103, 104, 105, 106</li>" in six and "<svg" not in six
    many = sim_page.render([a_row(seed) for seed in range(40)], "told", {})
    assert 'aria-label="Seeds by records committed"' in many and "<li>events" not in many


def test_earlier_campaigns_of_the_same_worlds_are_beside_this_one(tmp_path: Path) -> None:
    facts = {"machine": {"host": "here"}, "events": 100, "options": {"voters": None}}
    for name, events in (("old", 100), ("other", 200)):
        table = table_of([a_row(1, seconds=0.25), a_row(2, seconds=0.25)])
        result_files.write(result_files.with_facts(table, facts | {"when": name, "events": events}), tmp_path / name)
    page = sim_page.render([a_row(1), a_row(2)], "told", facts | {"when": "this"}, tmp_path / "this")
    assert "old (old)" in page and "other (other)" not in page and ">0.500x</td>" in page


def test_one_seed_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = kcore("--seed", "1", "--events", "400", "--planted", "timer-does-nothing", "--voters", "3")
    assert done.exit_code == 0
    assert "TimersMakeProgress" in done.stdout and "caught by seed 1" in done.stdout
    assert "./kcore sim raft --seed 1 --events 400 --planted timer-does-nothing --voters 3" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_bug_that_is_not_caught_is_a_failure() -> None:
    done = kcore("--seed", "1", "--events", "1", "--planted", "no-progress-timeout")
    assert done.exit_code == 1 and "not caught" in done.stdout


def hunts(*, until_interrupted: int | None = None) -> Callable[..., Iterator[Hunt]]:
    """In place of the search: every planted bug is caught but the first; Ctrl-C after so many."""

    def hunt_all(*_: object) -> Iterator[Hunt]:
        for at, plant in enumerate(PLANTED.values()):
            if at == until_interrupted:
                raise KeyboardInterrupt
            verdict = CAUGHT if at else NOT_CAUGHT
            yield Hunt(plant.name, plant.invariant, verdict, 3, 0.5, "<told>", {"Another": 2})

    return hunt_all


def test_ctrl_c_keeps_the_planted_bugs_that_were_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_planted, "hunt_all", hunts(until_interrupted=3))
    done = kcore("--planted", "all", "--out", str(tmp_path / "some"), "--json")
    assert done.exit_code == 3
    assert f"interrupted: 3 of {len(PLANTED)} planted bugs were looked for, 2 caught within 100" in done.stderr
    kept = pq.read_table(tmp_path / "some" / "results.parquet").to_pylist()
    assert [row["name"] for row in kept] == [*PLANTED][:3]
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == [*PLANTED][:3]
    page = (tmp_path / "some" / "report.html").read_text()
    assert "interrupted: 3 of" in page and "&lt;told&gt;" in page and '<tr class="bad">' in page
    monkeypatch.setattr(sim_planted, "hunt_all", hunts(until_interrupted=0))
    assert kcore("--planted", "all", "--out", str(tmp_path / "none")).exit_code == 3
    assert not list((tmp_path / "none").iterdir())


def test_all_planted_bugs_are_kept_and_one_that_is_not_caught_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim_planted, "hunt_all", hunts())
    done = kcore("--planted", "all", "--out", str(tmp_path))
    assert done.exit_code == 1 and f"{len(PLANTED)} planted bugs, {len(PLANTED) - 1} caught" in done.stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == len(PLANTED)
    found = [Hunt("a-bug", "An invariant", CAUGHT, 8, 0.5, "")]
    facts = result_files.facts_of(pq.read_table(tmp_path / "results.parquet")) | {"when": "9"}
    assert "Earlier runs" not in sim_planted.render(found, "told", facts, tmp_path / "later")
    before = pa.Table.from_pylist([asdict(found[0]) | {"seed": 2, "others": []}], schema=sim_planted.SCHEMA)
    result_files.write(result_files.with_facts(before, facts | {"when": "8"}), tmp_path / "earlier")
    assert ">4.00x</td>" in sim_planted.render(found, "told", facts, tmp_path / "later")


@pytest.mark.parametrize(
    "option",
    [("--level", "4.3"), ("--voters", "3"), ("--observers", "0"), ("--conf", "spark.a=1"), ("--master", "local")],
)
def test_options_that_all_planted_bugs_would_ignore_are_refused(option: tuple[str, str]) -> None:
    done = kcore("--planted", "all", *option)
    assert done.exit_code == 2
    assert done.stderr == f"kcore: --planted all takes no {option[0]}: name one bug, or leave {option[0]} out\n"


def test_usage() -> None:
    assert all(name in kcore("--names").stdout for name in PLANTED)
    assert kcore("--planted", "nothing").exit_code == 2
    assert kcore("--level", "2.8").exit_code == 2


def test_a_piece_of_spark_is_some_seconds_of_work() -> None:
    """Ctrl-C loses the pieces that are not done."""
    assert pieces_of(Campaign(range(3_000), events=4_000), cores=2) == 120
    assert pieces_of(Campaign(range(10), events=4_000), cores=2) == 10
    assert pieces_of(Campaign(range(20), events=100), cores=2) == 16
    assert pieces_of(Campaign(range(10**6), events=20_000), cores=2) == 1_000


@pytest.mark.long
def test_the_rows_of_spark_are_those_without() -> None:
    campaign = Campaign(range(1, 5), events=300, fixed={"voters": 3})
    spark = start("local[2]")
    try:
        frame = simulate(spark, campaign, tasks=2)
        found = frame.orderBy("seed").toArrow().to_pylist()
    finally:
        spark.stop()
    plain = list(rows(campaign, 1))
    assert [row | {"seconds": 0} for row in found] == [row | {"seconds": 0, "story": []} for row in plain]
