"""Options of the command, its steps and its exit codes."""

from pathlib import Path

import pytest

from follow_release import follow
from follow_release.changes import KINDS, Change
from follow_release.command import DIFFERENCES, NO_DIFFERENCE, USAGE, follow_of, main, newest_before
from follow_release.follow import STEPS, Follow
from follow_release.report import StepResult
from kcore.errors import TargetError


def test_the_newest_older_release() -> None:
    known = ["3.9.1", "4.1.2", "4.3.1"]
    assert [newest_before(each, known) for each in ("4.2.1", "4.10.0", "4.3.1", "3.9.1")] == [
        *("4.1.2", "4.3.1", "4.1.2", None),
    ]


def test_options_by_default() -> None:
    made, only = follow_of(["4.2.1"], print)
    assert (made.release, made.against, made.rules, made.out) == ("4.2.1", "4.1.2", "4.2.1", Path("out/follow-4.2.1"))
    assert only == list(STEPS)
    assert follow_of(["4.2.1", "--rules", "4.3.1"], print)[0].rules == "4.3.1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: X.Y.Z"),
        (["latest"], "'latest' is not a release such as 4.4.0"),
        (["4.2.1", "--only", "golden,stoires"], "no step 'stoires'; the steps are messages, errors"),
        (["4.2.1", "--against", "9.9.9"], "invalid choice: '9.9.9'"),
        (["4.2.1", "--stories", "0"], "--stories: 0 is less than 1"),
        (["3.0.0"], "kcore has no release older than 3.0.0: name one with --against"),
    ],
)
def test_wrong_options_end_with_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        follow_of(arguments, print)
    assert ended.value.code == USAGE
    assert said in capsys.readouterr().err


def ended(monkeypatch: pytest.MonkeyPatch, arguments: list[str], found: list[StepResult] | Exception) -> int:
    """The exit code of the command whose steps find this."""

    def run(_: Follow, only: list[str]) -> list[StepResult]:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Follow, "run", run)
    monkeypatch.setattr("sys.argv", ["follow-release", *arguments])
    return main()


def test_the_exit_code_counts_the_steps_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [StepResult("errors", changes=[Change("errors", "134", "new")]), StepResult("golden")]
    assert ended(monkeypatch, ["4.2.1"], found) == DIFFERENCES
    assert ended(monkeypatch, ["4.2.1", "--only", "golden"], found) == NO_DIFFERENCE


def test_jars_that_cannot_be_fetched_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, ["4.2.9"], TargetError("Maven Central has no Kafka 4.2.9")) == USAGE
    assert capsys.readouterr().err == "ci/follow-release: Maven Central has no Kafka 4.2.9\n"


def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, again: bool = False, count: int = 3) -> list[str]:
    """The steps among `golden` and `stories` that a run takes, and does not keep from an earlier run."""
    taken: list[str] = []
    for name in ("golden", "stories"):
        monkeypatch.setattr(Follow, f"_{name}", lambda _, result: taken.append(result.step))
    Follow("4.2.1", "4.1.2", "4.1.2", tmp_path, count, again, lambda _: None).run(["golden", "stories"])
    return taken


def test_a_second_run_keeps_what_the_first_has_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert counted(monkeypatch, tmp_path) == ["golden", "stories"]
    assert counted(monkeypatch, tmp_path) == []
    assert counted(monkeypatch, tmp_path, count=4) == ["stories"]
    assert counted(monkeypatch, tmp_path, again=True) == ["golden", "stories"]
    assert "| golden |" in (tmp_path / "report.md").read_text()


def test_a_step_that_fails_is_a_difference_and_is_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_: Follow, result: StepResult) -> None:
        raise RuntimeError("GoldenBytes.java: no class BaseRecords")

    monkeypatch.setattr(Follow, "_golden", fails)
    made = Follow("4.2.1", "4.1.2", "4.1.2", tmp_path, 1, False, lambda _: None)
    for _ in range(2):
        [result] = made.run(["golden"])
        assert [str(each.what) for each in result.differences] == ["GoldenBytes.java: no class BaseRecords"]
    assert "the step failed: 1" in (tmp_path / "report.md").read_text()


def test_jars_that_cannot_be_fetched_end_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(_: Follow, result: StepResult) -> None:
        raise TargetError("Maven Central has no Kafka 4.2.9")

    monkeypatch.setattr(Follow, "_golden", fails)
    with pytest.raises(TargetError):
        Follow("4.2.9", "4.1.2", "4.1.2", tmp_path, 1, False, lambda _: None).run(["golden"])


def test_every_step_that_compares_facts_reports_its_own_kinds() -> None:
    kinds = [kind for each in follow.OF_FACTS.values() for kind in each]
    assert sorted(kinds) == sorted(KINDS)
