"""Each command names a busy machine before it measures."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kcore.cli import console
from kcore.cli.commands import app


@pytest.mark.parametrize(("average", "cores", "expected"), [(0.4, 2, False), (0.6, 2, True), (0.6, 4, False)])
def test_a_busy_machine_is_named_on_stderr(
    average: float, cores: int, expected: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0))
    monkeypatch.setattr(console, "cores", lambda: cores)
    assert console.load_before().average == average
    out, err = capsys.readouterr()
    line = (
        "kcore: The machine was busy before the run began: a load average of 0.60 on 2 cores. Figures will be noisy.\n"
    )
    assert (out, err) == ("", line if expected else "")


class LooksAtTheLoad(Exception):
    """Raised in place of the look."""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("storm", ["storm", "broker-lost", "--target", "kcore-kraft"]),
        ("bench", ["bench", "smoke", "--no-spark"]),
        ("designs", ["bench", "designs"]),
        ("bench_quorum", ["bench", "quorum", "--system", "kcore"]),
        ("rivals", ["rivals", "codec"]),
    ],
)
def test_every_command_that_measures_looks_at_the_load_first(
    module: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def look() -> None:
        raise LooksAtTheLoad

    monkeypatch.setattr(f"kcore.cli.measure.{module}_command.load_before", look)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, LooksAtTheLoad), result.output
    assert "starting" not in result.output
