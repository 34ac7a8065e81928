import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.invoking import kcore
from kcore.cli.commands import COMMANDS, GROUPS, Command
from kcore.measure.bench.bench_plan import Plan
from kcore.measure.report import result_files
from kcore.measure.workloads.catalog import WORKLOADS, Workload
from kcore.measure.workloads.workload_rows import ROW_SCHEMA
from kcore.version import __version__
from workloads.fakes import FAKE, row, setup

pytestmark = pytest.mark.usefixtures("in_a_folder_with_a_plan")


def test_help_names_every_command():
    said = kcore("--help").stdout
    assert all(f" {name} " in said for name in ("bench", "compare", "rivals", "test"))


def test_version_prints_the_version_of_the_package():
    assert kcore("--version").stdout == f"kcore {__version__}\n"


def test_python_runs_the_package_as_the_command():
    """Under its name, as what it says of its usage is to be typed again; exit codes are the command's."""
    done = subprocess.run([sys.executable, "-m", "kcore", "quorum"], capture_output=True, text=True, check=False)
    assert done.returncode == kcore("quorum").exit_code
    assert "Usage: python -m kcore quorum" in done.stdout + done.stderr
    assert subprocess.run([sys.executable, "-m", "kcore", "--help"], capture_output=True, check=True).stdout


LOADED = """import sys
from kcore.cli import main
sys.argv = ["kcore", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a process of its own has loaded once the command has ended."""
    command = [sys.executable, "-c", LOADED, *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split())


NEEDED = {
    f"kcore.{name}"
    for name in (
        *("errors", "extras", "printable", "version", "measure", "measure.report", "measure.report.exits"),
        *("cli", "cli.commands", "cli.pipes"),
    )
}


@pytest.mark.parametrize("group", [(), *((name,) for name in GROUPS)])
def test_help_loads_no_command_and_nothing_that_one_needs(group: tuple[str, ...]) -> None:
    loaded = loaded_by(*group, "--help")
    heavy = {"numpy", "pyarrow", "pyspark", "numba", "matplotlib", "pandas", "kazoo", "asyncio"}
    assert not heavy & loaded
    assert {name for name in loaded if name.startswith("kcore.")} == NEEDED


def test_a_command_loads_no_other_command() -> None:
    loaded = loaded_by("decode", "--help")
    tables = [COMMANDS, *(table for _, table in GROUPS.values())]
    modules = {f"kcore.cli.{each.module}" for table in tables for each in table.values()}
    assert modules & loaded == {"kcore.cli.files.codec_command"}
    assert not {"pyspark", "numba", "matplotlib", "pyarrow", "kazoo"} & loaded


@pytest.mark.parametrize("table", [COMMANDS, *(table for _, table in GROUPS.values())])
def test_a_command_is_listed_by_the_first_sentence_of_its_help(table: dict[str, Command]) -> None:
    for name, each in table.items():
        assert each.load(name).help.splitlines()[0] == each.summary


def test_bench_prints_keeps_and_draws_what_it_measured():
    done = kcore("bench", "mine.toml", "--no-spark", "--out", "here")
    assert done.exit_code == 0, done.output
    assert "numbers: sort again" in done.stdout and "2/2 cells" in done.stdout
    assert sorted(path.name for path in Path("here").iterdir()) == [
        "plan.toml",
        "report.html",
        "results.jsonl",
        "results.parquet",
    ]
    assert len(pq.read_table("here/results.parquet")) == 4
    assert Plan.of("here/plan.toml").cells() == Plan.of("mine.toml").cells()


def test_bench_prints_the_default_folder_of_its_results():
    assert "Results in out/bench-" in kcore("bench", "mine.toml", "--no-spark").stdout


def test_options_make_another_plan_which_can_be_printed():
    printed = kcore("bench", "mine.toml", "--print-plan", "--partitions", "1k,20", "--repeat", "1", "--seed", "9")
    assert printed.exit_code == 0
    assert Plan.parse(printed.stdout).to_toml() == printed.stdout
    assert 'name = "fake"\npartitions = [1000, 20]\nbrokers = [3]\nrepeat = 1\nseed = 9\n' in printed.stdout


def test_json_is_alone_on_stdout():
    lines = kcore("bench", "mine.toml", "--no-spark", "--json").stdout.splitlines()
    assert [json.loads(line)["operation"] for line in lines] == ["numbers: sort", "numbers: sort again"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "nowhere.toml"], "neither a built-in plan"),
        (["bench", "mine.toml", "--partitions", "many"], "--partitions: 'many' is no list of counts"),
        (["bench", "mine.toml", "--brokers", "1"], "'brokers' must be a list of integers from 3"),
        (["bench", "mine.toml", "--repeat", "0"], "'repeat' must be an integer from 1"),
        (["bench", "mine.toml", "--cluster", "nowhere.txt"], "nowhere.txt: No such file"),
        (["bench", "--speed"], "No such option"),
        (["compare", "nowhere", "mine.toml"], "nowhere"),
        (["compare", "mine.toml", "mine.toml"], "mine.toml"),
        (["measure"], "no command 'measure'"),
    ],
)
def test_what_cannot_be_done_is_exit_code_2(arguments: list[str], said: str):
    done = kcore(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_failed_cell_is_exit_code_1_and_disagreement_3(monkeypatch: pytest.MonkeyPatch):
    def fails(cell, cluster):
        raise ValueError("broken on purpose")

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, fails))
    failed = kcore("bench", "mine.toml", "--no-spark", "--out", "here")
    assert failed.exit_code == 1
    assert "ValueError: broken on purpose" in failed.stdout
    assert "broken on purpose" in Path("here/report.html").read_text()

    def depends_on_the_repetition(cell, cluster):
        return setup(type(cell)("fake", 10 + cell.repetition, 3, 1, 0), cluster)

    monkeypatch.setitem(WORKLOADS, "fake", Workload(FAKE.name, FAKE.summary, depends_on_the_repetition))
    differs = kcore("bench", "mine.toml", "--no-spark")
    assert differs.exit_code == 3
    assert "results differ fake / numbers: sort" in differs.stdout


def test_compare_tells_regressions_by_name_and_exit_code():
    for name, samples_ns in (("old", [100, 110]), ("new", [200, 220])):
        result_files.write(pa.Table.from_pylist([row(samples_ns=samples_ns)], schema=ROW_SCHEMA), Path(name))
    slower = kcore("compare", "old", "new")
    assert slower.exit_code == 1
    assert slower.stdout.splitlines()[0] == "slower: 1 of 1 operation, up to 2.00x"
    assert "numbers: sort" in slower.stdout and "2.00x" in slower.stdout
    assert kcore("compare", "new", "old").exit_code == 0
    assert kcore("compare", "old", "new/results.jsonl", "--threshold", "2.5").exit_code == 0
    assert kcore("compare", "old", "new", "--threshold", "0.5").exit_code == 2


def test_compare_writes_markdown_json_and_a_page():
    for name, samples_ns in (("old", [100, 110]), ("new", [200, 220])):
        result_files.write(pa.Table.from_pylist([row(samples_ns=samples_ns)], schema=ROW_SCHEMA), Path(name))
    done = kcore("compare", "old", "new", "--markdown", "--html", "page.html")
    assert done.exit_code == 1 and done.stdout.startswith("**") and "kcore: the page is page.html" in done.stderr
    assert "slower: 1 of 1 operation, up to 2.00x" in Path("page.html").read_text()
    assert json.loads(kcore("compare", "old", "new", "--json").stdout)["exit"] == 1
    both = kcore("compare", "old", "new", "--json", "--markdown")
    assert (both.exit_code, both.stdout) == (2, "") and "choose one" in both.stderr
    nowhere = kcore("compare", "old", "new", "--html", "no/page.html")
    assert nowhere.exit_code == 2 and nowhere.stderr.startswith("kcore: --html: ") and "Traceback" not in nowhere.stderr
    assert kcore("compare", "old", "nowhere").exit_code == 2


def test_the_tests_belong_to_a_checkout():
    done = kcore("test", "-k", "nothing")
    assert done.exit_code == 2
    assert "./kcore test" in done.stderr


@pytest.mark.parametrize("command", ["codec", "dump", "image"])
def test_a_command_for_one_file_loads_nothing_for_reports(command: str) -> None:
    heavy = ("pyarrow", "matplotlib", "pandas", "pyspark")
    code = f"import sys, kcore.cli.files.{command}_command; print(*[name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
