"""The example workflow calls commands and options that there are."""

import re
import shlex
from pathlib import Path

import pytest

from kcore.cli.commands import COMMANDS

WORKFLOW = Path(__file__).parents[2] / "examples" / "compare.yml"
LINES = re.findall(r"kcore ((?:bench|compare) [^>)]*)", WORKFLOW.read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", [line for line in LINES if "--" in line])
def test_its_commands_have_these_options(line: str) -> None:
    name, *arguments = shlex.split(line)
    command = COMMANDS[name].load(name)
    context = command.make_context(name, arguments)  # UsageError for what there is not.
    assert context.params


def test_both_commands_are_there() -> None:
    assert {line.split()[0] for line in LINES} == {"bench", "compare"}
