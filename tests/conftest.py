"""Test options: `--cases DIR` runs the golden and decision tests alone, on other recorded files."""

from pathlib import Path

import pytest
from hypothesis import Phase, settings

import cases

# For ci/planted: that a fault is found is enough; to make the story small takes minutes.
settings.register_profile("planted", phases=(Phase.explicit, Phase.generate), database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", metavar="DIR", help="other recorded files than tests/data, same names and forms")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "recorded: compares with what the real Kafka did, as recorded")
    config.addinivalue_line("markers", "covers(item, ...): a bug, an assumption or a step of tests/citations.toml")
    if directory := config.getoption("--cases"):
        cases.directory = Path(directory).resolve()
        if not cases.directory.is_dir():
            raise pytest.UsageError(f"--cases {directory}: no such folder")
        if not any(cases.directory.rglob("*.jsonl*")):
            raise pytest.UsageError(f"--cases {directory}: no recorded cases (*.jsonl, *.jsonl.gz) there")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--cases"):
        chosen = [item for item in items if item.get_closest_marker("recorded")]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def nothing_was_compared(config: pytest.Config) -> bool:
    """With `--cases DIR`: tests were skipped, since the folder lacks their files, and no other ran."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not config.getoption("--cases"):
        return False
    return "skipped" in reporter.stats and reporter.stats.keys().isdisjoint({"passed", "failed", "error"})


def pytest_sessionfinish(session: pytest.Session) -> None:
    if nothing_was_compared(session.config):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if nothing_was_compared(config):
        folder = config.getoption("--cases")
        terminalreporter.write_line(f"--cases {folder}: every test was skipped: nothing compared", red=True)
