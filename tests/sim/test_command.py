"""`kcore sim raft`, and a campaign's rows over Spark."""

import json
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app
from kcore.cli.measure import sim_command, sim_page
from kcore.cli.measure.sim_command import summary
from kcore.measure.report import result_files
from kcore.sim.raft.campaign import Campaign, Row, rows, table_of
from kcore.sim.raft.run_world import Outcome
from kcore.spark.session import start
from kcore.spark.simulation import pieces_of, simulate_pieces


def kcore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["sim", "raft", *arguments])


def test_seeds_over_processes(tmp_path: Path) -> None:
    done = kcore("--seeds", "3", "--events", "400", "--processes", "2", "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    kept = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["seed"] for row in printed] == [row["seed"] for row in kept] == [1, 2, 3]
    assert [row["hash"] for row in printed] == [row["hash"] for row in kept]
    assert all({"events", "committed", "simulated_ms", "seconds"} <= row.keys() for row in printed)
    assert "3 seeds, 0 failed" in done.stderr and "fault: " in done.stderr
    assert "All invariants held in 3 seeds." in (tmp_path / "report.html").read_text()


def test_the_summary_says_how_much_work_the_events_were() -> None:
    rows: list[Row] = [
        {"invariant": None, "events": 20_000, "committed": 1_500, "simulated_ms": 1_800_000, "seconds": 1.0},
        {"invariant": "SingleLeader", "events": 40_000, "committed": 300, "simulated_ms": 5_400_000, "seconds": 2.0},
    ]
    text = summary(rows, 2.5)
    assert text.startswith("2 seeds, 1 failed: 60,000 events, 1,800 records committed, 2.0 simulated hours in 2.5 s;")
    assert text.endswith("a minute a core: 1.20 million events, 36,000 records, 40.0 simulated hours")


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
    def fails(seed: int, events: int, **_: object) -> Outcome:
        return Outcome(seed, events, 5, 0.1, "", 0, 0, 0, -1, "SingleLeader", "two leaders", ("the last event",))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim_command, "Campaign", partial(Campaign, run=fails))
    done = kcore("--seed", "7", "--events", "400", "--voters", "3")
    assert done.exit_code == 1
    assert "the last event\nSingleLeader two leaders\n" in done.stdout
    assert "seed 7, event 400; again: ./kcore sim raft --seed 7 --events 400 --voters 3" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_usage() -> None:
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
        found = [row for piece in simulate_pieces(spark, campaign) for row in piece.result or ()]
    finally:
        spark.stop()
    told = sorted(found, key=lambda row: row["seed"])
    assert [row | {"seconds": 0} for row in told] == [row | {"seconds": 0} for row in rows(campaign, 1)]
