"""The command in this process, and the folder of a user who has a plan."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kcore.cli.commands import app

PLAN = '[[workload]]\nname = "fake"\npartitions = [10]\nbrokers = [3]\nrepeat = 2\nseed = 1\n'


def kcore(*arguments: object, stdin: bytes | None = None) -> Result:
    """`./kcore ARGUMENTS`."""
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


@pytest.fixture
def in_a_folder_with_a_plan(fake_workload: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is mine.toml, of a workload that needs nothing but NumPy."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(PLAN)
