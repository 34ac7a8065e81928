"""The report of a run: a page in Markdown, and JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from follow_release.changes import KINDS, Change
from follow_release.differences import Difference, by_kind

LINES: Final = 60  # The page lists at most so many changes of one kind; the JSON has all.
SUBJECTS: Final = 12
TITLES: Final = {
    "messages": "Messages",
    "versions": "Versions of messages",
    "fields": "Fields",
    "tags": "Tags",
    "apis": "APIs: announced versions, listeners, forwarding",
    "errors": "Errors",
    "levels": "metadata.version",
    "features": "Features",
    "settings": "Settings",
    "defaults": "Defaults and bounds of settings",
    "formatted": "Files of kafka-storage format",
    "code": "Bytecode of the controller",
}


@dataclass
class StepResult:
    """The results of one step. `asked`: its options, by which a later run sees whether it is done."""

    step: str
    asked: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of changes and differences."""
        return len(self.changes) + len(self.differences)

    def write(self, path: Path) -> None:
        """Writes the result as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")

    def as_json(self) -> dict[str, Any]:
        """All of it; a change and a difference are objects with the names of their fields."""
        rows = {name: [each._asdict() for each in getattr(self, name)] for name in ("changes", "differences")}
        return {**asdict(self), **rows}

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The result of an earlier run, if there is one."""
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        found["changes"] = [Change(**each) for each in found["changes"]]
        found["differences"] = [Difference(**each) for each in found["differences"]]
        return cls(**found)


class Heading(NamedTuple):
    """The releases of a run: the release, the older one, and the one whose rules kcore follows."""

    release: str
    against: str
    rules: str


def page(heading: Heading, results: Sequence[StepResult]) -> str:
    """The report in Markdown."""
    release, against, rules = heading
    lines = [
        f"# Kafka {release}, compared with {against} and with kcore",
        "",
        "| step | seconds | found |",
        "|---|---|---|",
    ]
    lines += [f"| {each.step} | {each.seconds:.0f} | {_found(each)} |" for each in results]
    lines += ["", f"## What {release} changed against {against}", *_changes(results)]
    lines += ["", f"## Where kcore, with the rules of {rules}, differs from {release}", *_differences(results)]
    return "\n".join(lines) + "\n"


def _found(result: StepResult) -> str:
    counts = [(len(result.changes), "changes"), (len(result.differences), "differences")]
    said = [f"{count} {what}" for count, what in counts if count]
    return "; ".join([*said, *result.notes]) or "no difference"


def _changes(results: Iterable[StepResult]) -> Iterable[str]:
    found = [change for result in results for change in result.changes]
    for kind in KINDS:
        chosen = [change for change in found if change.kind == kind]
        if chosen:
            yield from ("", f"### {TITLES[kind]}: {len(chosen)}", "")
            yield from (f"- {_escaped(str(change))}" for change in chosen[:LINES])
            if len(chosen) > LINES:
                yield f"- and {len(chosen) - LINES} more, in report.json"


def _differences(results: Iterable[StepResult]) -> Iterable[str]:
    for result in results:
        for kind in by_kind(result.differences):
            subjects = [f"{name} {count}" for name, count in kind.subjects.items()]
            more = f" and {len(subjects) - SUBJECTS} more" if len(subjects) > SUBJECTS else ""
            yield from ("", f"### {result.step}: {kind.name}: {kind.total}", "")
            yield f"{', '.join(subjects[:SUBJECTS])}{more}. For example:"
            yield ""
            yield from (f"- {_escaped(example)}" for example in kind.examples)


def _escaped(text: str) -> str:
    """One line, and nothing that Markdown reads as HTML."""
    return text.replace("\n", " ").replace("<", "&lt;")


def write(folder: Path, heading: Heading, results: Sequence[StepResult]) -> None:
    """Writes report.md and report.json."""
    (folder / "report.md").write_text(page(heading, results), encoding="utf-8")
    whole = {**heading._asdict(), "steps": [each.as_json() for each in results]}
    (folder / "report.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
