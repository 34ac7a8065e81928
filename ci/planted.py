"""For ci/planted: plants one fault at a time in a copy of the package, and demands that the tests named with it fail.

An entry of tests/planted/*.toml says what is wrong (`bug`), where (`file`, below src/kcore), which text becomes which
(`find`, there exactly once, and `replace`) and which tests see it. Compiled kernels are linked as they are.

Each core has a copy of its own. Tests run in a fork of this process, which has imported everything but kcore.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "kcore"
PLANTED = ROOT / "tests" / "planted"
LIMIT_S = 180
ALL_LIMIT_S = 3600  # The named tests of one file together, without a fault.
PASSED, FAILED, HANGS = 0, 1, -1  # pytest's exit codes; others say that the tests did not run. HANGS is ours.
OPTIONS = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "--hypothesis-profile=planted", "--timeout=60"]
# Packages that most tests import, for which each fork would take a second of its own.
IMPORTED = ("numpy", "hypothesis", "numba", "pyarrow", "asyncio", "ssl", "psutil")


@dataclass(frozen=True)
class Fault:
    """One fault, and who must find it."""

    covers: str
    bug: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def planted_in(self, text: str) -> str:
        """ValueError unless what is to be replaced is there once."""
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"{self.bug}: {self.find!r} is {count} times in {self.file}, not once")
        return text.replace(self.find, self.replace)


@dataclass(frozen=True)
class Run:
    """One run of tests over a copy: with a fault, or with none to see that the tests pass."""

    tests: tuple[str, ...]
    fault: Fault | None
    limit_s: float


class Copy:
    """A copy of the package, in which one run at a time takes place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._output = folder / "output"
        self._pid = 0
        self._until_s = 0.0
        self._planted: tuple[Path, str] | None = None

        def take(source: str, target: str) -> None:
            (os.symlink if source.endswith(".so") else shutil.copy2)(source, target)

        ignored = shutil.ignore_patterns("__pycache__", "rust")
        shutil.copytree(PACKAGE, folder / "kcore", copy_function=take, ignore=ignored)

    def begin(self, run: Run) -> None:
        """Plants the run's fault, and starts its tests."""
        if run.fault is not None:
            path = self.folder / "kcore" / run.fault.file
            text = path.read_text(encoding="utf-8")
            self._write(path, run.fault.planted_in(text))
            self._planted = path, text
        self._until_s = time.monotonic() + run.limit_s
        self._pid = os.fork()
        if self._pid == 0:
            _test(self.folder, self._output, run.tests)

    def exit_code(self) -> int | None:
        """pytest's exit code once the tests have ended, HANGS if they took too long; None while they run."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0 and time.monotonic() < self._until_s:
            return None
        self.end()
        code = os.waitstatus_to_exitcode(status) if pid else HANGS
        if code not in (PASSED, FAILED, HANGS):
            print(self._output.read_text(encoding="utf-8", errors="replace")[-4_000:], file=sys.stderr)
        return code

    def end(self) -> None:
        """Ends the tests with all their processes, and removes the fault."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0
        if self._planted is not None:
            self._write(*self._planted)
            self._planted = None

    def _write(self, path: Path, text: str) -> None:
        """Writes a source; its bytecode goes, because both texts may have the same size and second."""
        path.write_text(text, encoding="utf-8")
        Path(cache_from_source(path)).unlink(missing_ok=True)


def _test(folder: Path, output: Path, tests: Sequence[str]) -> None:
    """Runs the tests over the copy; the process ends with pytest's exit code."""
    os.setsid()
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, written), (2, written)):
        os.dup2(source, target)
    os.chdir(ROOT)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:0] = [str(ROOT), str(folder)]
    code: int = 2
    try:
        code = int(pytest.main([*OPTIONS, *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def run_all(runs: Sequence[Run]) -> Iterator[tuple[Run, int]]:
    """Runs as many at a time as there are cores; yields each with its exit code when it has ended."""
    waiting = list(reversed(runs))
    with tempfile.TemporaryDirectory() as made:
        copies = [Copy(Path(made) / str(number)) for number in range(min(len(runs), len(os.sched_getaffinity(0))))]
        running: dict[Copy, Run] = {}
        try:
            while waiting or running:
                for copy in copies:
                    if copy not in running and waiting:
                        running[copy] = waiting.pop()
                        copy.begin(running[copy])
                for copy in [*running]:
                    if (code := copy.exit_code()) is not None:
                        yield running.pop(copy), code
                time.sleep(0.02)
        finally:
            for copy in running:
                copy.end()


def faults_in(folder: Path) -> list[Fault]:
    """All of them, file by file."""
    entries = [entry for path in sorted(folder.glob("*.toml")) for entry in tomllib.loads(path.read_text())["fault"]]
    return [Fault(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def tests_of(faults: Sequence[Fault]) -> list[Run]:
    """The named tests without a fault, a run for each file of tests."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for test in (test for fault in faults for test in fault.tests):
        by_file[test.partition("::")[0]].add(test)
    return [Run(tuple(sorted(tests)), None, ALL_LIMIT_S) for tests in by_file.values()]


def main() -> int:
    """0 if every fault was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "-k", metavar="TEXT", default="", help="only faults with this text in what they cover, say or change"
    )
    said = parser.parse_args().k.lower()
    faults = [each for each in faults_in(PLANTED) if said in f"{each.covers} {each.bug} {each.file}".lower()]
    if not faults:
        parser.error(f"no fault says {said!r}")
    for name in IMPORTED:
        import_module(name)
    for run, code in run_all(tests_of(faults)):
        if code != PASSED:
            print(f"planted: the tests do not pass without a fault: {' '.join(run.tests)}", file=sys.stderr)
            return 1
    found = 0
    for run, code in run_all([Run(each.tests, each, LIMIT_S) for each in faults]):
        assert run.fault is not None
        verdict = {PASSED: "LIVES", FAILED: "found", HANGS: "HANGS"}.get(code, f"NO VERDICT, exit code {code}")
        print(f"{verdict:<6} {run.fault.covers:<14} {run.fault.bug} ({run.fault.file})", flush=True)
        found += verdict == "found"
    print(f"planted: {found} of {len(faults)} found")
    return 0 if found == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
