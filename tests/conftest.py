"""Which tests run: the quick ones where no test is named, else and with `--all` the long ones too. `--cases DIR` runs
the golden and decision tests alone, on other recorded files."""

import gc
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import cases
from durations import Durations, cores
from leftovers import Leftovers

# How fast a machine makes and tries examples is no property of kcore.
ANY_MACHINE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("any machine", **ANY_MACHINE)
settings.load_profile("any machine")
# For ci/planted: that a fault is found is enough; to make the story small takes minutes.
settings.register_profile("planted", phases=(Phase.explicit, Phase.generate), database=None, **ANY_MACHINE)

LONG = "long: takes over three seconds of a core, or only CI needs it. A run that names nothing leaves it out"
LEFT_OUT = pytest.StashKey[int]()  # How many long tests a quick run has left out.


def is_quick(config: pytest.Config) -> bool:
    """Nothing says which tests: no file or folder, no -k or -m, no --all, no --cases."""
    if hasattr(config, "workerinput"):
        return config.workerinput["is_quick"]
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return False
    return not any(config.getoption(name) for name in ("all", "cases", "keyword", "markexpr"))


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's: its workers see other arguments.
def pytest_configure_node(node: Any) -> None:
    node.workerinput["is_quick"] = is_quick(node.config)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's, for `-n auto`.
def pytest_xdist_auto_num_workers() -> int:
    """Half a process more than there are cores: every second test waits for a socket or another process."""
    return cores() + cores() // 2


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's. Each worker collects all tests, and nobody else does.
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)  # A worker that crashed tells nothing.
    node.config.stash[LEFT_OUT] = max(node.config.stash.get(LEFT_OUT, 0), left_out)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the long tests where no file, folder, -k or -m names any")
    parser.addoption("--cases", metavar="DIR", help="other recorded files than tests/data, same names and forms")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "recorded: compares with what the real Kafka did, as recorded")
    config.addinivalue_line("markers", "covers(item, ...): a bug, an assumption or a step of tests/citations.toml")
    config.addinivalue_line("markers", LONG)
    config.pluginmanager.register(Leftovers())
    gc.disable()  # The objects of a collection of tests live to the end: `freeze` enables it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # A script's background jobs, and the programs they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    runs_all = (is_quick(config) or config.getoption("all")) and not config.option.collectonly
    if runs_all and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations(config, "quick" if is_quick(config) else "all"))
    if directory := config.getoption("--cases"):
        cases.directory = Path(directory).resolve()
        if not cases.directory.is_dir():
            raise pytest.UsageError(f"--cases {directory}: no such folder")
        if not any(cases.directory.rglob("*.jsonl*")):
            raise pytest.UsageError(f"--cases {directory}: no recorded cases (*.jsonl, *.jsonl.gz) there")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--cases"):
        keep(config, items, lambda item: item.get_closest_marker("recorded") is not None)
    if is_quick(config):
        collected = len(items)
        keep(config, items, lambda item: item.get_closest_marker("long") is None)
        config.stash[LEFT_OUT] = collected - len(items)


def pytest_collection_finish() -> None:
    freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    done = yield
    if nextitem is None or nextitem.path != item.path:
        freeze()
    return done


def freeze() -> None:
    """Keeps long-lived objects, such as 14,000 tests and their recorded cases, out of later garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


def keep(config: pytest.Config, items: list[pytest.Item], is_wanted: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = [item for item in items if is_wanted(item)]


def nothing_was_compared(config: pytest.Config) -> bool:
    """With `--cases DIR`: tests were skipped, since the folder lacks their files, and no other ran."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not config.getoption("--cases"):
        return False
    return "skipped" in reporter.stats and reporter.stats.keys().isdisjoint({"passed", "failed", "error"})


def pytest_sessionfinish(session: pytest.Session) -> None:
    if nothing_was_compared(session.config):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if nothing_was_compared(config):
        folder = config.getoption("--cases")
        terminalreporter.write_line(f"--cases {folder}: every test was skipped: nothing compared", red=True)
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} long tests deselected: ./kcore test --all runs them, as CI does")
