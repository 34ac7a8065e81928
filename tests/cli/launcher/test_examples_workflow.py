"""The example workflows call commands and options that there are."""

import re
import shlex
from pathlib import Path

import pytest

from kcore.cli.commands import COMMANDS
from kcore.measure.storm.kraft.scenarios import SCENARIOS

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[3] / "examples"
WORKFLOWS = {path.name: path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.yml"))}
LINES = {
    name: [line for line in re.findall(r"kcore ((?:bench|compare|storm) [^>)]*)", text) if "--" in line]
    for name, text in WORKFLOWS.items()
}


@pytest.mark.parametrize("line", [line for lines in LINES.values() for line in lines])
def test_their_commands_have_these_options(line: str) -> None:
    name, *arguments = shlex.split(line)
    command = COMMANDS[name].load(name)
    context = command.make_context(name, arguments)  # UsageError for what there is not.
    assert context.params
    assert {*(context.params.get("scenarios") or ())} <= {*SCENARIOS}
    for threshold in context.params.get("threshold") or ():
        assert threshold.rpartition("=")[0] in {"", *SCENARIOS}


def test_each_measures_and_compares() -> None:
    found = {name: {line.split()[0] for line in lines} for name, lines in LINES.items()}
    assert found == {"compare.yml": {"bench", "compare"}, "compare_storms.yml": {"storm", "compare"}}


def test_each_is_named_on_a_page() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (EXAMPLES.parent / "docs").rglob("*.md"))
    assert [name for name in WORKFLOWS if f"examples/{name}" not in pages] == []
