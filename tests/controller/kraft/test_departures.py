"""The table of departures is what README says, and what an operator can switch."""

from pathlib import Path

import pytest
import typer

from kcore.cli import kraft_run
from kcore.controller.kraft.departures import DEPARTURES, KAFKA_WAY

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_lists_the_table() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    first = lines.index("| name | Kafka's controller | kcore's, by default | switch |") + 2
    assert lines[first : first + len(DEPARTURES)] == [
        f"| `{name}` | {row.kafka} | {row.kcore} | {'yes' if row.has_switch else 'no'} |"
        for name, row in DEPARTURES.items()
    ]
    assert not lines[first + len(DEPARTURES)]


def test_an_operator_switches_any_of_them_back() -> None:
    assert kraft_run.departures_of([]) == frozenset()
    assert kraft_run.departures_of(["all"]) == KAFKA_WAY
    for name in KAFKA_WAY:
        assert kraft_run.departures_of([name]) == {name}


@pytest.mark.parametrize("name", ["unknown-recovery-state", "a-typo"])
def test_what_cannot_be_switched_ends_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        kraft_run.departures_of([name])
    assert ended.value.exit_code == 2
    assert name in capsys.readouterr().err
