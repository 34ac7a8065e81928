"""`./kcore setup` in an empty clone checks the disk before it calls uv, here a fake uv that only records its calls.

`./kcore test` starts a fake pytest that prints how it was started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

LAUNCHER = Path(__file__).parents[3] / "kcore"
UV = """#!/bin/sh
echo "$*" >>"{calls}"
case "$*" in
  "cache dir") echo "{cache}" ;;
  "cache prune") exit {status} ;;
esac
"""
DF = """#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
for folder in "$2" "$3"; do echo "/dev/sda 1 1 {free_kb} 1% /disk"; done
"""


class Clone:
    """A launcher with a .venv that lacks its requirements."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls, self.cache = folder / "clone", folder / "calls", folder / "cache"
        self.tools = folder / "tools"
        for path in (self.folder / ".venv" / "bin", self.cache, self.tools):
            path.mkdir(parents=True)
        shutil.copy(LAUNCHER, self.folder)
        stamp = self.folder / ".venv" / "kcore-stamp"
        stamp.write_text(str(self.folder.resolve()))
        os.utime(stamp, (0, 0))
        for name in ("requirements.lock", "requirements-java.lock"):
            (self.folder / name).touch()
        (self.folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
        self.uv()

    def script(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def uv(self, status: int = 0) -> None:
        """`status`: how a prune ends."""
        text = UV.format(calls=self.calls, cache=self.cache, status=status)
        self.script(self.folder / ".venv" / "bin" / "uv", text)

    def built(self, times: int) -> None:
        """PySpark, so many times in the cache."""
        for at in range(times):
            (self.cache / f"sdists-v11/pypi/pyspark/4.3.0/build-{at}/src/src").mkdir(parents=True)

    def set_up(self, free_kb: int = 50 << 20) -> tuple[str, list[str]]:
        """The output of the launcher, and the calls of uv."""
        self.script(self.tools / "df", DF.format(free_kb=free_kb))
        environment = os.environ | {"PATH": f"{self.tools}:{os.environ['PATH']}"}
        done = subprocess.run(
            [self.folder / "kcore", "setup"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "kcore: ready" in done.stderr
        return done.stderr, self.calls.read_text().splitlines()


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_little_space_is_warned_of_once_and_stops_nothing(clone: Clone) -> None:
    printed, calls = clone.set_up(free_kb=2 << 20)
    assert printed.count("only 2.0 GB are free on the disk at /disk") == 1
    assert any(call.startswith("pip install") for call in calls)


def test_much_space_causes_no_warning(clone: Clone) -> None:
    printed, _ = clone.set_up(free_kb=3 << 20)
    assert "GB" not in printed


@pytest.mark.parametrize("times", [0, 1])
def test_a_cache_that_holds_pyspark_once_is_left_alone(clone: Clone, times: int) -> None:
    clone.built(times)
    assert "cache prune" not in clone.set_up()[1]


@pytest.mark.parametrize("status", [0, 2])
def test_a_cache_that_holds_pyspark_twice_is_pruned_after_the_installation(clone: Clone, status: int) -> None:
    """That another uv is at work there, which ends it with 2, is no failure."""
    clone.built(2)
    clone.uv(status)
    _, calls = clone.set_up()
    at = calls.index("cache prune")
    assert "-r" in calls[at - 1] and calls[at + 1].startswith("pip install")


PASSED_ON = {
    "": "-n auto --dist worksteal",
    "--all -q": "-n auto --dist worksteal --all -q",
    "tests/raft -q": "tests/raft -q",
    "oracle -k quorum": "tests/oracle -k quorum",
}


@pytest.mark.parametrize("writes_bytecode", [True, False])
def test_pytest_has_a_process_a_core_unless_something_is_named(clone: Clone, *, writes_bytecode: bool) -> None:
    """Where Python may not write what it compiled beside the sources, the tests' processes share another folder."""
    clone.set_up()
    (clone.folder / "tests" / "oracle").mkdir(parents=True)
    clone.script(clone.folder / ".venv" / "bin" / "kcore", "#!/bin/sh\n")
    script = 'echo "${PYTHONDONTWRITEBYTECODE-} $PYTHONPYCACHEPREFIX|$*"'
    clone.script(clone.folder / ".venv" / "bin" / "pytest", f"#!/bin/sh\n{script}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if not writes_bytecode:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    folder = "" if writes_bytecode else f"{clone.folder.resolve()}/build/pycache"
    for arguments, passed_on in PASSED_ON.items():
        command = [clone.folder / "kcore", "test", *arguments.split()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == f" {folder}|{passed_on}\n"
