"""`ci/sim --planted`: one planted bug, or all."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from kcore.measure.report import result_files
from planted_raft import PLANTED, all_bugs, command
from planted_raft.hunting import CAUGHT, NOT_CAUGHT, Hunt


def kcore(*arguments: str) -> Result:
    return CliRunner().invoke(command.app, command.arguments_of([*arguments]))


def test_one_seed_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = kcore("--seed", "1", "--events", "400", "--planted", "timer-does-nothing", "--voters", "3")
    assert done.exit_code == 0
    assert "TimersMakeProgress" in done.stdout and "caught by seed 1" in done.stdout
    assert "again: ci/sim --seed 1 --events 400 --voters 3 --planted timer-does-nothing" in done.stdout
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


def test_07_ctrl_c_keeps_the_planted_bugs_that_were_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_bugs, "hunt_all", hunts(until_interrupted=3))
    done = kcore("--planted", "all", "--out", str(tmp_path / "some"), "--json")
    assert done.exit_code == 3
    assert f"interrupted: 3 of {len(PLANTED)} planted bugs were looked for, 2 caught within 500" in done.stderr
    kept = pq.read_table(tmp_path / "some" / "results.parquet").to_pylist()
    assert [row["name"] for row in kept] == [*PLANTED][:3]
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == [*PLANTED][:3]
    page = (tmp_path / "some" / "report.html").read_text()
    assert "interrupted: 3 of" in page and "&lt;told&gt;" in page and '<tr class="bad">' in page
    monkeypatch.setattr(all_bugs, "hunt_all", hunts(until_interrupted=0))
    assert kcore("--planted", "all", "--out", str(tmp_path / "none")).exit_code == 3
    assert not list((tmp_path / "none").iterdir())


def test_all_planted_bugs_are_kept_and_one_that_is_not_caught_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_bugs, "hunt_all", hunts())
    done = kcore("--planted", "all", "--out", str(tmp_path))
    assert done.exit_code == 1 and f"{len(PLANTED)} planted bugs, {len(PLANTED) - 1} caught" in done.stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == len(PLANTED)
    found = [Hunt("a-bug", "An invariant", CAUGHT, 8, 0.5, "")]
    facts = result_files.facts_of(pq.read_table(tmp_path / "results.parquet")) | {"when": "9"}
    assert "Earlier runs" not in all_bugs.render(found, "told", facts, tmp_path / "later")
    before = pa.Table.from_pylist([asdict(found[0]) | {"seed": 2, "others": []}], schema=all_bugs.SCHEMA)
    result_files.write(result_files.with_facts(before, facts | {"when": "8"}), tmp_path / "earlier")
    assert ">4.00x</td>" in all_bugs.render(found, "told", facts, tmp_path / "later")


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
    assert kcore("--planted", "no-flush-after-cut").stderr == (
        "kcore: --planted: no bug is called 'no-flush-after-cut'; did you mean 'no-flush-after-a-cut'?\n"
    )
    assert kcore("--planted", "all", "--level", "2.8").exit_code == 2


def test_without_a_name_all_bugs_are_planted() -> None:
    assert command.arguments_of(["--planted"]) == ["--planted", "all"]
    assert command.arguments_of(["--planted", "--seeds", "5"]) == ["--planted", "all", "--seeds", "5"]
    assert command.arguments_of(["--seed", "5", "--planted", "a-bug"]) == ["--seed", "5", "--planted", "a-bug"]


def test_results_are_not_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("mine")
    done = kcore("--planted", "all", "--out", str(tmp_path))
    assert done.exit_code == 2 and f"--out: {tmp_path} holds the results of an earlier run" in done.stderr
