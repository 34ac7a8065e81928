"""kcore with NumPy alone, and with each extra by itself: every other package is hidden from a process of its own."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

import kcore
from kcore.errors import MissingExtraError
from kcore.extras import EXTRAS, install_command, needs

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "kcore"
WORKS_WITH = Path(__file__).with_name("works_with.py")
USER_PROGRAM = ROOT / "tests" / "typing" / "user_program.py"
# The names in the first argument, separated by commas, are not to be found; Python itself says so then.
HIDING = """
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, path, target)
hidden = frozenset(sys.argv.pop(1).split(","))
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""
RUN = HIDING + "import runpy\nsys.argv.pop(0)\nrunpy.run_path(sys.argv[0], run_name='__main__')"
COMMAND = HIDING + "from kcore.cli import main\nsys.argv[0] = 'kcore'\nmain()"
# Only the command and what it runs: it names their extra for them (`cli/commands.py`). A kernel imports no error.
OF_THE_COMMAND = (
    "kcore.cli",
    "kcore.__main__",
    "kcore.measure.bench",
    "kcore.measure.storm",
    "kcore.measure.designs",
    "kcore.measure.rivals",
    "kcore._ext.elections.policies",
)


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


# The distributions that have a module or package of that name.
OWNERS = {module: {normal(each) for each in owners} for module, owners in packages_distributions().items()}


@cache
def with_dependencies(package: str) -> frozenset[str]:
    """The names to import of a package and of all that it requires here."""
    found, waiting = set[str](), [normal(package)]
    installed = set[str]().union(*OWNERS.values())
    while waiting:
        found.add(name := waiting.pop())
        needed = (line for line in requires(name) or () if "extra ==" not in line)
        names = {normal(re.match(r"[\w.-]+", line)[0]) for line in needed}  # type: ignore[index]
        waiting += (names & installed) - found
    return frozenset(module for module, owners in OWNERS.items() if owners & found)


def hidden_but(*packages: str) -> str:
    """Every package of this environment but kcore, NumPy, these and what they require."""
    shown = {"kcore", "numpy"}.union(*(with_dependencies(each) for each in packages))
    return ",".join(sorted(OWNERS.keys() - shown))


def run(code: str, hidden: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, hidden, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_library_needs_numpy_alone() -> None:
    """Every public name, the names that need an extra included: they tell which one."""
    assert "numba" in hidden_but().split(",") and "pyarrow" in hidden_but().split(",")
    for program in ([str(WORKS_WITH), "none"], [str(USER_PROGRAM)]):
        done = run(RUN, hidden_but(), *program)
        assert done.returncode == 0, done.stderr


ALL_BUT_JAVA = sorted(EXTRAS.keys() - {"java"})


@pytest.mark.parametrize("extra", ALL_BUT_JAVA)
def test_each_extra_works_by_itself(extra: str) -> None:
    done = run(RUN, hidden_but(*EXTRAS[extra].packages), str(WORKS_WITH), extra)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"kcore works with {extra}\n"


MODULES = """
import importlib, pkgutil, kcore
from kcore.errors import MissingExtraError
for module in pkgutil.walk_packages(kcore.__path__, "kcore.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except MissingExtraError as error:
        assert "pip install" in str(error) and error.name
    except ModuleNotFoundError as error:
        print(module.name)
"""


def test_every_module_of_the_library_names_the_extra_that_it_lacks() -> None:
    done = run(HIDING + MODULES, hidden_but())
    assert done.returncode == 0, done.stderr
    assert [name for name in done.stdout.split() if not name.startswith(OF_THE_COMMAND)] == []


# The functions that need it, and the code of a user.
LIBRARY = {
    "arrow": "kcore.wire.Columns('LeaderAndIsrRequest').to_arrow()",
    "metrics": "import kcore.server.metrics.page",
    "numba": "kcore.zk.election_policy(lambda replicas, in_sync, online: 0)",
    "report": "kcore.bench.run('smoke')",
    "spark": "kcore.spark.register",
    "zookeeper": "import kcore.zookeeper.session",
}


@pytest.mark.parametrize(("extra", "code"), LIBRARY.items())
def test_the_library_names_the_missing_extra_in_one_sentence(extra: str, code: str) -> None:
    done = run(f"{HIDING}\nimport kcore, kcore.schema\n{code}", hidden_but())
    subject, packages = EXTRAS[extra]
    assert done.stderr.splitlines()[-1] == (
        f"kcore.errors.MissingExtraError: {subject} needs {packages[0]}: {install_command(extra)}"
    )


def test_a_package_that_is_too_old_is_named() -> None:
    """PySpark 3.5 has no Python data sources."""
    said = re.escape(f"spark needs a newer pyspark: {install_command('spark')}")
    with pytest.raises(MissingExtraError, match=said), needs("spark"):
        import_module("pyspark.sql.no_such_module")


def test_the_packages_of_an_extra_are_asked_for_in_the_extra_that_was_named_first() -> None:
    """`kcore.spark` without anything asks for kcore[spark], not for the kcore[arrow] that a file below it needs."""
    done = run(f"{HIDING}\nfrom kcore.spark import diverge_log_dirs", hidden_but("pyspark"))
    assert done.stderr.splitlines()[-1].endswith('spark needs pyarrow: pip install "kcore[spark]"')


ALONE = 'kcore: the command needs typer: pip install "kcore[cli]"\n'


@pytest.mark.parametrize("arguments", [(), ("--help",), ("decode", "--help")])
def test_the_command_without_its_extra_is_one_line_and_exit_code_2(arguments: tuple[str, ...]) -> None:
    done = run(COMMAND, hidden_but(), *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", ALONE)


LOAD_ALL = """
from kcore.cli.commands import COMMANDS, GROUPS
for table in (COMMANDS, *(table for _, table in GROUPS.values())):
    for name, command in table.items():
        try:
            command.load(name)
        except ImportError as error:
            print(f"{type(error).__name__} {name}: {error}")
"""
NEED_MORE = {"zookeeper": {"zk", "bench designs"}}


def test_commands_that_need_more_than_kcore_cli_name_the_extra() -> None:
    done = run(HIDING + LOAD_ALL, hidden_but(*EXTRAS["cli"].packages))
    said = set(done.stdout.splitlines())
    assert said == {
        f"MissingExtraError {name}: {EXTRAS[extra].subject} needs {EXTRAS[extra].packages[0]}: {install_command(extra)}"
        for extra, names in NEED_MORE.items()
        for name in names
    }


def test_the_command_s_extra_has_all_that_reports_need() -> None:
    assert set(EXTRAS["report"].packages) < set(EXTRAS["cli"].packages)
    done = run(COMMAND, hidden_but(*EXTRAS["cli"].packages), "bench", "--help")
    assert done.returncode == 0 and "Measure the workloads of a plan" in done.stdout


def test_a_storm_in_zookeeper_mode_names_its_extra_before_it_starts_anything(tmp_path: Path) -> None:
    """One of a quorum does without kazoo."""
    hidden = hidden_but(*EXTRAS["cli"].packages)
    done = run(COMMAND, hidden, "storm", "--target", "kcore-zk", "--brokers", "3", "--out", str(tmp_path))
    [*before, last] = done.stderr.splitlines()
    assert (done.returncode, done.stdout, last) == (
        2,
        "",
        'kcore: zookeeper needs kazoo: pip install "kcore[zookeeper]"',
    )
    assert all("busy" in line for line in before), "a busy machine is named first"


def test_a_log_as_arrow_names_the_extra(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(kcore.wire.encode_records([kcore.wire.Record(0, 1, None, b"value")]))
    arrow = str(tmp_path / "out.arrow")
    done = run(COMMAND, hidden_but("typer", "rich"), "dump", str(log), "--arrow", arrow)
    assert (done.returncode, done.stderr) == (2, 'kcore: Arrow needs pyarrow: pip install "kcore[arrow]"\n')


def test_top_needs_no_metrics_library_unless_it_is_given_a_page() -> None:
    hidden = hidden_but(*EXTRAS["cli"].packages)
    done = run(COMMAND, hidden, "top", "127.0.0.1:1", "--once", "--timeout", "0.2")
    assert (done.returncode, done.stderr) == (1, "kcore: 127.0.0.1:1: no answer within 0.2 s\n")
    done = run(COMMAND, hidden, "top", "127.0.0.1:1", "--metrics", "127.0.0.1:2")
    message = 'kcore: a page of metrics needs prometheus_client: pip install "kcore[metrics]"\n'
    assert (done.returncode, done.stderr) == (2, message)


def test_extras_are_those_of_the_package() -> None:
    """`all` is all but java, which only machines without a Java need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [re.match(r"\w+", line)[0] for line in project["dependencies"]] == ["numpy"]  # type: ignore[index]
    packaged = {
        name: tuple(re.match(r"[\w-]+", line)[0].replace("-", "_") for line in lines)  # type: ignore[index]
        for name, lines in project["optional-dependencies"].items()
        if name != "all"
    }
    assert packaged == {name: extra.packages for name, extra in EXTRAS.items()}
    assert project["optional-dependencies"]["all"] == [f"kcore[{','.join(sorted(EXTRAS.keys() - {'java'}))}]"]


def third_party(path: Path) -> Collection[str]:
    tree = ast.walk(ast.parse(path.read_text("utf-8")))
    nodes = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names} - {*sys.stdlib_module_names, "annotationlib"} - {"kcore", "numpy"}


def test_every_package_that_is_imported_is_in_an_extra() -> None:
    known = {package for extra in EXTRAS.values() for package in extra.packages} | {"py4j"}  # PySpark requires it.
    for path in PACKAGE.rglob("*.py"):
        assert third_party(path) <= known | {"typing_extensions", "_typeshed"}, path  # The last two: for type checkers.
