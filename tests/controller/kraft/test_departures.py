"""The table of departures is what docs/guides/departures.md says, and what an operator can switch."""

import ast
from pathlib import Path

import pytest
import typer

import kcore
from kcore.cli.servers import kraft_run
from kcore.controller.kraft import departures
from kcore.controller.kraft.departures import DEPARTURES, KAFKA_WAY

PAGE = Path(__file__).parents[3] / "docs/guides/departures.md"


def test_the_page_lists_the_table() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = lines.index("| name | Kafka's controller | kcore's, by default |") + 2
    assert lines[first : first + len(DEPARTURES)] == [
        f"| `{name}` | {row.kafka} | {row.kcore} |" for name, row in DEPARTURES.items()
    ]
    assert not lines[first + len(DEPARTURES)]


def test_every_switch_is_read() -> None:
    """By the name of its constant, in another file than the table's; an import alone does not count."""
    names = {key for key, value in vars(departures).items() if isinstance(value, str) and value in KAFKA_WAY}
    assert len(names) == len(KAFKA_WAY)
    package = Path(kcore.__file__).parent
    files = [
        path for part in ("controller/kraft", "server/kraft_controller") for path in (package / part).rglob("*.py")
    ]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files if path.name != "departures.py"]
    assert names <= {node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_an_operator_switches_any_of_them_back() -> None:
    assert kraft_run.departures_of([]) == frozenset()
    assert kraft_run.departures_of(["all"]) == KAFKA_WAY
    for name in KAFKA_WAY:
        assert kraft_run.departures_of([name]) == {name}


def test_a_name_that_is_not_in_the_table_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        kraft_run.departures_of(["a-typo"])
    assert ended.value.exit_code == 2
    assert "a-typo" in capsys.readouterr().err
