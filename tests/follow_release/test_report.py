"""The page and the JSON of a run."""

import json
from pathlib import Path

from follow_release.changes import Change, changes
from follow_release.differences import Difference, by_kind
from follow_release.report import LINES, Heading, StepResult, page, write
from follow_release.small_facts import OLD, new

HEADING = Heading("2.0.0", "1.0.0", "1.0.0")
DIFFERENCES = [
    Difference("response differs", "CreateTopics", "story 1/3"),
    Difference("records differ", "CreateTopics", "story 1/3"),
    Difference("response differs", "Vote", "story 2/9"),
    Difference("response differs", "CreateTopics", "story 4/1"),
]


def test_differences_are_grouped_by_kind_and_subject() -> None:
    first, second = by_kind(DIFFERENCES)
    assert (first.name, first.total, first.subjects) == ("response differs", 3, {"CreateTopics": 2, "Vote": 1})
    assert first.examples == ["CreateTopics: story 1/3", "Vote: story 2/9"]
    assert (second.name, second.total, second.subjects) == ("records differ", 1, {"CreateTopics": 1})
    assert by_kind([]) == []


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = StepResult("stories", "10 stories", 3.5, ["a note"], changes(OLD, new()), DIFFERENCES)
    result.write(tmp_path / "steps" / "stories.json")
    assert StepResult.read(tmp_path / "steps" / "stories.json") == result
    assert StepResult.read(tmp_path / "steps" / "golden.json") is None


def test_the_page_lists_changes_and_differences() -> None:
    results = [
        StepResult("errors", seconds=2.4, changes=[each for each in changes(OLD, new()) if each.kind == "errors"]),
        StepResult("golden", notes=["12 vectors"]),
        StepResult("stories", differences=[*DIFFERENCES, Difference("x", "Fetch", "a\nb <c>")]),
    ]
    text = page(HEADING, results)
    assert "| errors | 2 | 2 changes |\n| golden | 0 | 12 vectors |\n| stories | 0 | 5 differences |" in text
    assert "### Errors: 2\n\n-   7 BUSY: message The node is busy. -> The node is very busy.\n" in text
    assert (
        "### stories: response differs: 3\n\nCreateTopics 2, Vote 1. For example:\n\n- CreateTopics: story 1/3" in text
    )
    assert "- Fetch: a b &lt;c>" in text


def test_a_long_list_ends_on_the_page_and_is_whole_in_the_json(tmp_path: Path) -> None:
    many = [Change("code", f"org.C{k}", "new") for k in range(LINES + 5)]
    write(tmp_path, HEADING, [StepResult("code", changes=many)])
    text = (tmp_path / "report.md").read_text()
    assert text.count("- org.C") == LINES and "- and 5 more, in report.json" in text
    found = json.loads((tmp_path / "report.json").read_text())
    assert (found["release"], found["against"], found["rules"]) == HEADING
    assert len(found["steps"][0]["changes"]) == LINES + 5
