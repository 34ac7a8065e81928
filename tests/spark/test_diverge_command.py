"""`kcore diverge --master`: the same over Spark. A file of its own, since the command stops its session."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kcore.cli.commands import app
from spark.log_dirs import COUNT


@pytest.mark.long
def test_the_command_says_the_same_over_spark(log_dirs: tuple[Path, Path]) -> None:
    command = ["diverge", *map(str, log_dirs), "--json"]
    over_spark = CliRunner().invoke(app, [*command, "--master", "local[2]"])
    alone = CliRunner().invoke(app, command)
    assert (over_spark.exit_code, over_spark.stdout) == (alone.exit_code, alone.stdout)
    assert over_spark.exit_code == 1
    assert len([json.loads(line) for line in alone.stdout.splitlines()]) == COUNT + 2


def test_the_command_takes_spark_for_log_directories_alone(log_dirs: tuple[Path, Path]) -> None:
    folders = [str(log_dir / "t-0") for log_dir in log_dirs]
    refused = CliRunner().invoke(app, ["diverge", *folders, "--master", "local[2]"])
    assert refused.exit_code == 2 and "--master is for log directories" in refused.stderr
