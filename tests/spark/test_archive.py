"""`kcore spark archive`: executors whose Python has no package at all run kcore from it."""

import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from typer.testing import CliRunner

import kcore
from kcore.cli.commands import app
from kcore.errors import TargetError
from kcore.measure.report.own_code import DIGITS, code_sha256, own_sha256
from kcore.spark import archive
from kcore.spark.java import java_home

MASTER = "local-cluster[2,1,1024]"
# A program of a user: partitions are elected on two executors, and a log is read as a DataFrame.
PROGRAM = """
import sys
import kcore
from pyspark.sql import SparkSession

archives, pythonpath, log = sys.argv[1:]
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
spark = builder.config("spark.archives", archives).config("spark.executorEnv.PYTHONPATH", pythonpath).getOrCreate()

def elect(seed):
    import kcore, os
    table = kcore.generate(partitions=100, brokers=5, replication_factor=3, topics=5, seed=seed)
    return os.path.relpath(kcore.__file__), kcore.__version__, len(kcore.zk.elect(table, "offline", leaving=[1])) > 0

try:
    for elected in sorted(set(spark.sparkContext.parallelize(range(2), 2).map(elect).collect())):
        print(*elected)
    kcore.spark.register(spark)
    print(spark.read.format("kcore.log").load(log).count(), "records")
finally:
    spark.stop()
"""


def test_an_archive_whose_name_spark_would_not_unpack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"a\.tar: Spark unpacks a file by its name, .* name it NAME\.tar\.gz"):
        archive.write_archive(tmp_path / "a.tar")
    assert not list(tmp_path.iterdir())


def test_archives_that_are_missing_end_the_command_before_spark_starts(tmp_path: Path) -> None:
    good, missing = tmp_path / "good.tar", tmp_path / "none.tar"
    good.write_bytes(b"")
    for text in ("", f"{good}#a,{good}", good.as_uri(), "hdfs://host/none.tar", f"{good},s3a://b/none.tgz#c"):
        assert archive.problem_of(text) == ""
    said = f"{missing}: No such file or directory"
    for text in (f"{missing}#n", f"{good}#good,{missing}", missing.as_uri()):
        assert archive.problem_of(text) == said
    for options in (["--archives", str(missing)], ["--conf", f"spark.archives={missing}"]):
        done = CliRunner().invoke(app, ["bench", "smoke", *options])
        assert done.exit_code == 2 and done.stderr == f"kcore: --archives: {said}\n"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The archive, and the options that the command printed."""
    path = tmp_path_factory.mktemp("archive") / "kcore.tar.gz"
    done = CliRunner().invoke(app, ["spark", "archive", str(path)])
    assert done.exit_code == 0, done.output
    assert f"for {archive.made_for()}" in done.stderr
    return path, done.stdout


@pytest.mark.long
def test_executors_whose_python_has_no_package_use_the_archive(packed: tuple[Path, str], tmp_path: Path) -> None:
    """So does the Python that plans a read for the driver, from a folder into which the archive was unpacked."""
    bare, unpacked, log = tmp_path / "bare", tmp_path / "unpacked", tmp_path / "t-0" / "00000000000000000000.log"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with tarfile.open(packed[0]) as archived:
        archived.extractall(unpacked, filter="data")
    options = re.fullmatch(r"--archives (\S+) --conf spark\.executorEnv\.PYTHONPATH=(\S+)\n", packed[1])
    assert options is not None
    log.parent.mkdir()
    log.write_bytes(
        kcore.wire.encode_records([kcore.wire.Record(0, 1, None, b"a"), kcore.wire.Record(1, 2, None, b"b")])
    )
    done = run_program([*options.groups(), str(log)], spark_home(tmp_path), bare / "bin" / "python", unpacked)
    place = f"{archive.FOLDER}/kcore/__init__.py"
    assert done.stdout.splitlines() == [f"{place} {kcore.__version__} True", "2 records"], done.stderr


PLAN = '[[workload]]\nname = "election"\npartitions = [1000]\nbrokers = [5]\nrepeat = 2\nseed = 1\nduration_s = 0.01\n'


@pytest.mark.long
def test_bench_runs_on_executors_whose_python_has_no_package(packed: tuple[Path, str], tmp_path: Path) -> None:
    """With the options that the command printed."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    (tmp_path / "mine.toml").write_text(PLAN)
    home, out = spark_home(tmp_path), tmp_path / "out"
    bench = ["-m", "kcore", "bench", str(tmp_path / "mine.toml"), "--master", MASTER, "--out", str(out)]
    done = run_python([*bench, *packed[1].split()], home, bare / "bin" / "python")
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(out / "results.parquet").to_pylist()
    assert rows and all(row["error"] is None and row["task"] is not None for row in rows)


@pytest.mark.long
def test_an_archive_with_one_changed_module_is_refused(packed: tuple[Path, str], tmp_path: Path) -> None:
    """Its version is the driver's. The unchanged archive has the hash of the installation that it was made of."""
    unpacked, changed = tmp_path / "unpacked", tmp_path / "changed.tar.gz"
    with tarfile.open(packed[0]) as archived:
        archived.extractall(unpacked, filter="data")
    assert code_sha256(unpacked / "kcore") == own_sha256()
    with (unpacked / "kcore" / "replication" / "elect.py").open("a") as module:
        module.write("\nimport time\n\ntime.sleep(0)\n")
    with tarfile.open(changed, "w:gz", compresslevel=1) as archived:
        archived.add(unpacked, ".")
    (tmp_path / "mine.toml").write_text(PLAN)
    out, options = tmp_path / "out", archive.spark_options(changed).split()
    bench = ["-m", "kcore", "bench", str(tmp_path / "mine.toml"), "--master", MASTER, "--out", str(out), *options]
    done = run_python(bench, spark_home(tmp_path), Path(sys.executable))
    [said] = [line for line in done.stderr.splitlines() if line.startswith("kcore: the executors")]
    other = code_sha256(unpacked / "kcore")
    has = rf"{socket.gethostname()} has {kcore.__version__} \(code {other[:DIGITS]}\)"
    assert re.search(rf"differs from the driver's .*\(code {own_sha256()[:DIGITS]}\): {has}: ", said), said
    assert done.returncode == 2 and not (out / "results.parquet").exists()


def spark_home(folder: Path) -> Path:
    """PySpark's, but executors work below `folder`."""
    home = folder / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def run_program(arguments: list[str], home: Path, python: Path, packages: Path) -> subprocess.CompletedProcess[str]:
    """On a master with two executors, processes of their own; `python` theirs, `packages` the driver's for it."""
    return run_python(["-c", PROGRAM, *arguments], home, python, packages)


def run_python(
    arguments: list[str], home: Path, python: Path, packages: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The driver; executors have `python`."""
    environment = {
        "HOME": str(Path.home()),
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        **({"PYTHONPATH": str(packages)} if packages else {}),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_an_archive_holds_what_executors_import_and_no_machine_s_paths(packed: tuple[Path, str]) -> None:
    with tarfile.open(packed[0]) as packed_files:
        names = packed_files.getnames()
    assert {"kcore/__init__.py", "numpy/__init__.py", "pyarrow/__init__.py"} <= set(names)
    assert any(name.startswith("kcore/_ext/elections/election.") for name in names)
    assert not [name for name in names if name.startswith(("/", "..", "pyspark/")) or name.endswith((".pyx", ".rs"))]


def test_an_archive_does_not_overwrite_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "kcore.tar.gz"
    taken.write_text("mine")
    with pytest.raises(TargetError, match="is there already"):
        archive.write_archive(taken)
    done = CliRunner().invoke(app, ["spark", "archive", str(taken)])
    assert (done.exit_code, done.stderr) == (2, f"kcore: {taken} is there already: remove it, or name another file\n")
    assert taken.read_text() == "mine"
    missing = CliRunner().invoke(app, ["spark", "archive", str(tmp_path / "no" / "such" / "folder.tar.gz")])
    assert missing.exit_code == 2 and missing.stderr.count("\n") == 1
