"""For ci/planted: plants one fault at a time in a copy of the package, and demands that the tests named with it fail.

An entry of tests/planted/*.toml says what is wrong (`bug`), where (`file`, below src/kcore), which text becomes which
(`find`, there exactly once, and `replace`) and which tests see it. Compiled kernels are linked as they are.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "kcore"
PLANTED = ROOT / "tests" / "planted"
LIMIT_S = 180
ALL_LIMIT_S = 3600  # All named tests together, without a fault.
PASSED, FAILED = 0, 1  # pytest's exit codes. Others say that the tests did not run.


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


def faults_in(folder: Path) -> list[Fault]:
    """All of them, file by file."""
    entries = [entry for path in sorted(folder.glob("*.toml")) for entry in tomllib.loads(path.read_text())["fault"]]
    return [Fault(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def copied(folder: Path) -> None:
    """The package as it is now; compiled kernels as links."""

    def take(source: str, target: str) -> None:
        (os.symlink if source.endswith(".so") else shutil.copy2)(source, target)

    ignored = shutil.ignore_patterns("__pycache__", "rust")
    shutil.copytree(PACKAGE, folder / "kcore", copy_function=take, ignore=ignored)


def exit_code(folder: Path, tests: list[str], limit_s: int = LIMIT_S) -> int | None:
    """pytest's, over the copy; None if it hung."""
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "--hypothesis-profile=planted"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode not in (PASSED, FAILED):
        print(done.stdout[-2_000:], done.stderr[-2_000:], sep="\n", file=sys.stderr)
    return done.returncode


def verdict(fault: Fault, folder: Path) -> str:
    """Whether the tests found it."""
    path = folder / "kcore" / fault.file
    text = path.read_text(encoding="utf-8")
    path.write_text(fault.planted_in(text), encoding="utf-8")
    try:
        code = exit_code(folder, [*fault.tests])
    finally:
        path.write_text(text, encoding="utf-8")
    return {PASSED: "LIVES", FAILED: "found", None: "HANGS"}.get(code, f"NO VERDICT, exit code {code}")


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
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        copied(folder)
        if exit_code(folder, sorted({test for fault in faults for test in fault.tests}), ALL_LIMIT_S) != PASSED:
            print("planted: the tests do not pass without a fault", file=sys.stderr)
            return 1
        verdicts = []
        for fault in faults:
            verdicts.append(verdict(fault, folder))
            print(f"{verdicts[-1]:<6} {fault.covers:<14} {fault.bug} ({fault.file})", flush=True)
    found = verdicts.count("found")
    print(f"planted: {found} of {len(faults)} found")
    return 0 if found == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
