"""`kcore rivals`: measures kcore and rival libraries in one run, and compares results before times.

Every peer is a process of its own that reads the same files (bench/rivals/README.md has the protocol). For each case,
the run first compares the results of all peers. Only peers with correct results are then warmed up and timed, in turns,
so that noise affects all of them equally.
"""

import hashlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table

from kcore.errors import PlanError
from kcore.measure.report import result_files
from kcore.measure.report.exits import Exit
from kcore.measure.report.machine import Load, facts, jvm_name
from kcore.measure.report.result_files import with_facts
from kcore.measure.rivals import rival_ranges
from kcore.measure.rivals.rival_names import TITLES, VIEWS, figure, short_name, view_of
from kcore.measure.rivals.rival_peers import (
    GROUPS,
    PEERS,
    BuildError,
    MissingToolchainError,
    Peer,
    PeerProcess,
    java_tool,
)
from kcore.measure.rivals.rival_targets import (
    BIG_MESSAGES,
    BOUNDS,
    KCORE,
    MEMCPY,
    NEWEST_JAVA,
    OBJECTS,
    PLAIN_C,
    SMALL_MESSAGES,
    Figures,
    TargetResult,
    outcomes,
)
from kcore.spark.java import cache_directory
from kcore.suggestions import did_you_mean

FIRST_CALLS: Final = 9  # Fresh processes, each timed at its first call.
FURTHER_BROKER_EPOCH: Final = 381
SOURCES: Final = Path(__file__).resolve().parents[4] / "bench" / "rivals"

REQUESTS: Final = (
    *("LeaderAndIsrRequest:7:uniform", "LeaderAndIsrRequest:7:mixed", "LeaderAndIsrRequest:2:uniform"),
    *("UpdateMetadataRequest:8:uniform", "UpdateMetadataRequest:8:mixed", "UpdateMetadataRequest:5:uniform"),
)
NEWEST: Final = ("LeaderAndIsrRequest:7:uniform", "UpdateMetadataRequest:8:uniform")
CASES: Final[dict[str, tuple[str, ...]]] = {
    "codec": (
        *(f"{op}:{request}" for request in REQUESTS for op in ("decode", "encode", "encode_fresh")),
        *(f"{op}:{request}" for request in NEWEST for op in ("decode_nogc", "read_nogc", "fanout", "fanout_copy")),
    ),
    "memory": ("memory:LeaderAndIsrRequest:7:large",),
    "election": (
        *("offline:uniform", "offline:mixed", "fence:uniform", "fence:mixed", "preferred:mixed"),
        *("scan:uniform", "scan:mixed", "scan:x10", "scan:x100", "full:uniform", "full:mixed"),
    ),
    "divergence": ("end_offsets", "truncation"),
    "messages": tuple(f"{op}:{message}" for message in (*SMALL_MESSAGES, *BIG_MESSAGES) for op in ("decode", "encode")),
    "records": ("batches:segment", "mapped:segment", "crc:segment"),
}
# Scripts that write the inputs; the default is workload.py.
WRITERS: Final = {"messages": "messages.py", "records": "segment.py"}
BYTES: Final = ("codec", "messages")  # In these groups the result must be the bytes of the input.
ONLY: Final = {
    "scan": (KCORE, PLAIN_C),  # Kafka's loop visits every partition: see `full`.
    **dict.fromkeys(("full", "preferred"), (KCORE, "java")),  # Plain C only reads the data and elects no leader.
    "fanout_copy": (KCORE, MEMCPY),
    "decode_nogc": (OBJECTS, "kio"),
    "read_nogc": (OBJECTS, "kio"),
    "crc": (KCORE,),
    "mapped": (NEWEST_JAVA,),  # kcore maps the file in `batches`, too.
}
"""The peers of operations that only some peers have."""
BIG_PARTITIONS: Final = 10_000
TIME_SHARES: Final = {"messages": 0.12}
"""Factors on the time per case for groups of many short cases."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run. `seconds`: timed work of a case in one turn. `only`, `peers`: those that take part."""

    partitions: int = 100_000
    only: tuple[str, ...] = GROUPS
    repeat: int = 5
    seconds: float = 0.15
    out: Path | None = None
    peers: tuple[str, ...] = tuple(peer.name for peer in PEERS)
    warm: bool = True
    runs: int = 1

    def __post_init__(self) -> None:
        """Raises PlanError for unknown groups or peers, and for sizes that are too small."""
        for kind, given, known in (("group", self.only, GROUPS), ("peer", self.peers, [peer.name for peer in PEERS])):
            for unknown in set(given) - set(known):
                raise PlanError(f"no {kind} {unknown!r}; there are {', '.join(known)}{did_you_mean(unknown, known)}")
        if self.partitions < 100 or self.repeat < 1 or self.runs < 1:
            raise PlanError("at least 100 partitions, 1 repetition and 1 run")


@dataclass(slots=True)
class Report:
    """The result of a run: one row per peer and case, the targets, notes on omissions, and the exit code."""

    options: Options
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False

    @property
    def targets(self) -> list[TargetResult]:
        """The targets that this run has figures for."""
        return outcomes(self.rows)

    @property
    def exit_code(self) -> Exit:
        """FAILED if results disagree; INVALID if a peer failed, unless only its toolchain is missing."""
        if any(row["agrees"] is False for row in self.rows):
            return Exit.FAILED
        return Exit.INVALID if self.partial else Exit.GOOD


def run(options: Options, log_line: Callable[[str], None] = print) -> Report:
    """Builds the peers, writes the inputs, compares and times every case; `log_line` gets each line of progress."""
    report = Report(options)
    if not SOURCES.is_dir():
        raise PlanError(f"the peers' sources are not here ({SOURCES}): `kcore rivals` needs a checkout")

    def note(text: str) -> None:
        report.notes.append(text)
        log_line(text)

    commands = _build(options, report, log_line, note)
    with tempfile.TemporaryDirectory(prefix="kcore-rivals-") as folder:
        directory = Path(folder)
        log_line(f"writing inputs for {options.partitions:,} partitions")
        _write_inputs(directory, options)
        for group in [group for group in GROUPS if group in options.only]:
            log_line(f"{group}: {len(CASES[group])} cases")
            _Group(group, commands, directory, report, log_line, note).run()
    return report


def _build(
    options: Options, report: Report, log_line: Callable[[str], None], note: Callable[[str], None]
) -> dict[Peer, list[str]]:
    commands = {}
    for peer in PEERS:
        if peer.name not in options.peers or not set(peer.groups) & set(options.only):
            continue
        try:
            log_line(f"building {peer.name}")
            commands[peer] = peer.build(SOURCES, cache_directory() / "rivals")
        except MissingToolchainError as error:
            note(f"{peer.name}: left out, {error}")
        except BuildError as error:
            report.partial = True
            note(f"{peer.name}: left out, its build failed: {error}")
    return commands


def _write_inputs(directory: Path, options: Options) -> None:
    sizes = ["--partitions", str(options.partitions), "--memory-partitions", str(options.partitions * 10)]
    for script in {WRITERS.get(group, "workload.py") for group in options.only}:
        command = [sys.executable, str(SOURCES / script), str(directory)]
        subprocess.run(command + (sizes if script == "workload.py" else []), check=True)


class _Group:
    """The cases of one group, run on peers whose processes end with the group."""

    def __init__(
        self,
        group: str,
        commands: dict[Peer, list[str]],
        directory: Path,
        report: Report,
        log_line: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self.group, self.directory, self.report, self.log_line, self.note = group, directory, report, log_line, note
        self.options = report.options
        self.commands = {peer: command for peer, command in commands.items() if group in peer.groups}
        self.scratch = directory / "result"
        self.share = TIME_SHARES.get(group, 1.0)

    def run(self) -> None:
        with ExitStack() as stack:
            processes = [self._start(peer, stack) for peer in self.commands]
            for case in CASES[self.group]:
                mine = [process for process in processes if _has(process.peer, case)]
                rows = self._memory(mine, case) if self.group == "memory" else self._measure(mine, case)
                self.report.rows += rows
                self.log_line("  " + case + ": " + ", ".join(_brief(row) for row in rows))
        if self.group == "election":
            self.report.rows += self._first_calls()

    def _start(self, peer: Peer, stack: ExitStack) -> PeerProcess:
        process = PeerProcess(peer, self.commands[peer], self.group, self.directory)
        stack.callback(process.close)
        return process

    def _measure(self, processes: Sequence[PeerProcess], case: str) -> list[dict[str, Any]]:
        rows = self._check(processes, case)
        trusted = [process for process in processes if rows.get(process.peer.name, {}).get("agrees") is not False]
        trusted = [process for process in trusted if process.peer.name in rows]
        timings: dict[str, list[float]] = {process.peer.name: [] for process in trusted}
        counts = {process.peer.name: self._turns(process, case) for process in trusted}
        for turn in range(self.options.repeat):
            for process in trusted if turn % 2 else reversed(trusted):
                if turn >= counts[process.peer.name]:
                    continue
                reply = process.ask("time", case, self.options.seconds * self.share)
                if self._usable(process, case, reply):
                    timings[process.peer.name] += reply["ns"]
        for name, whole in timings.items():
            ns = [each / (BIG_PARTITIONS if view_of(case) == "big" else 1) for each in whole]
            if ns:
                rows[name] |= {"ns_min": min(ns), "ns_median": statistics.median(ns), "rounds": len(ns)}
        return list(rows.values())

    def _turns(self, process: PeerProcess, case: str) -> int:
        """Warms a peer up and returns its number of turns: 1 if one run takes several times `seconds` (kio's writer: 1
        s).

        A slow peer is timed twice, since other work on the machine may have delayed its first run.
        """
        warmed = process.ask("time", case, process.peer.warm_s * self.share if self.options.warm else 0)
        is_slow = self._is_slow(warmed) and self._is_slow(process.ask("time", case, 0))
        return 1 if is_slow else self.options.repeat

    def _is_slow(self, reply: dict[str, Any]) -> bool:
        a_run = 1 if self.group == "messages" else self.options.partitions
        run_s = min(reply.get("ns", [0])) * a_run / 1e9
        return bool(run_s > 3 * self.options.seconds * self.share > 0)

    def _check(self, processes: Sequence[PeerProcess], case: str) -> dict[str, dict[str, Any]]:
        """One row for each peer that has the case, with the hash of its result and whether the result is right."""
        rows = {}
        for process in processes:
            row = self._row(process.peer, case)
            if process.peer.name in BOUNDS:
                rows[process.peer.name] = row
                continue
            self.scratch.unlink(missing_ok=True)
            if self._usable(process, case, process.ask("check", case, self.scratch)):
                rows[process.peer.name] = row | {"sha256": _sha256(self.scratch.read_bytes())}
        self._judge(case, [row for row in rows.values() if row["sha256"]])
        return rows

    def _judge(self, case: str, rows: list[dict[str, Any]]) -> None:
        """Compares results with the input file, or, for decisions, with those of the Java peer if it takes part."""
        expected = self._expected(case)
        if expected is None:
            expected = next((row["sha256"] for row in rows if row["peer"] in ("java", NEWEST_JAVA)), None)
        for row in rows:
            if expected is not None and len(rows) + (self.group in BYTES) > 1:
                row["agrees"] = row["sha256"] == expected
            if row["agrees"] is False:
                self.note(f"{row['peer']}: {case} gives another result; its time is not taken")

    def _expected(self, case: str) -> str | None:
        if self.group not in BYTES:
            return None
        operation, message, version, shape = case.split(":")
        data = (self.directory / f"{message}.{version}.{shape}.bin").read_bytes()
        if operation.startswith("fanout"):
            at = 9 if int(version) >= 7 else 8  # After controller id, isKRaftController and controller epoch.
            data = data[:at] + FURTHER_BROKER_EPOCH.to_bytes(8, "big") + data[at + 8 :]
        return _sha256(data)

    def _memory(self, processes: Sequence[PeerProcess], case: str) -> list[dict[str, Any]]:
        rows = []
        for process in processes:
            reply = process.ask("memory", case)
            if self._usable(process, case, reply):
                rows.append(self._row(process.peer, case) | {"mib": reply["mib"]})
        return rows

    def _first_calls(self) -> Iterator[dict[str, Any]]:
        """kcore's first decision in a fresh process, in which the import and the table are already done."""
        for peer in [peer for peer in self.commands if peer.name == KCORE]:
            for case in ("offline:uniform", "fence:uniform"):
                ns = []
                for _ in range(FIRST_CALLS):
                    with ExitStack() as stack:
                        process = self._start(peer, stack)
                        reply = process.ask("time", case, 0)
                        if self._usable(process, case, reply):
                            ns.append(reply["ns"][0])
                if ns:
                    times = {"ns_min": min(ns), "ns_median": statistics.median(ns), "rounds": len(ns)}
                    yield self._row(peer, f"{case}:first") | times

    def _usable(self, process: PeerProcess, case: str, reply: dict[str, Any]) -> bool:
        if error := reply.get("error"):
            self.report.partial = True
            self.note(f"{process.peer.name}: {case} failed: {error}")
        return "error" not in reply and "skip" not in reply

    def _row(self, peer: Peer, case: str) -> dict[str, Any]:
        empty = dict.fromkeys(("sha256", "agrees", "ns_min", "ns_median", "rounds", "mib"))
        partitions: int | None = BIG_PARTITIONS if view_of(case) == "big" else self.options.partitions
        if view_of(case) == "small" or self.group == "records":
            partitions = None  # The case has no partitions, or too few to matter.
        return {"group": self.group, "peer": peer.name, "case": case, "partitions": partitions} | empty


def _has(peer: Peer, case: str) -> bool:
    if view := view_of(case):
        return VIEWS.get(peer.name, view) == view
    operation = case.split(":")[0]
    return operation not in ONLY or peer.name in ONLY[operation]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _brief(row: dict[str, Any]) -> str:
    figure = row["ns_min"] if row["mib"] is None else row["mib"]
    return f"{row['peer']} " + ("-" if figure is None else f"{figure:.3g}")


def write(report: Report, directory: Path, about: dict[str, Any]) -> None:
    """Writes `rivals.jsonl` and `rivals.parquet` (one row per peer and case), `targets.jsonl` and `report.html`."""
    from kcore.measure.rivals import rivals_page  # Imports matplotlib, which takes a second.

    options = f"{report.options.partitions:,} partitions, {report.options.repeat} turns"
    result_files.clear(directory)
    result_files.write_lines(directory / "rivals.jsonl", report.rows)
    targets = [{name: getattr(each, name) for name in each.__slots__} for each in report.targets]
    result_files.write_lines(directory / "targets.jsonl", targets)
    if report.rows:
        result_files.write_table(directory / "rivals.parquet", with_facts(pa.Table.from_pylist(report.rows), about))
    page = rivals_page.render(report.rows, report.targets, report.notes, options, about, directory)
    result_files.write_text(directory / "report.html", page)


def show(report: Report, console: Console) -> None:
    """Prints the figures of each group, then the notes, then the targets."""
    figures = Figures(report.rows)
    for group in GROUPS:
        rows = [row for row in report.rows if row["group"] == group]
        for view in dict.fromkeys(view_of(row["case"]) for row in rows):
            console.print(_table(view or group, [row for row in rows if view_of(row["case"]) == view], figures))
    for text in report.notes:
        console.print(text, markup=False)
    targets = Table("target", "bound", Column("measured", justify="right"), "met", title="targets")
    for each in report.targets:
        measured = "a peer is missing" if each.value is None else f"{figure(each.value)} {each.unit}"
        targets.add_row(each.target, each.bound, measured, {True: "yes", False: "NO", None: "-"}[each.met])
    console.print(targets)


def _table(name: str, rows: list[dict[str, Any]], figures: Figures) -> Table:
    peers = [peer.name for peer in PEERS if any(row["peer"] == peer.name for row in rows)]
    title = TITLES.get(name, f"{name}: ns a partition, least of all runs")
    table = Table("case", *(Column(peer, justify="right") for peer in peers), title=title)
    for case in dict.fromkeys(row["case"] for row in rows):
        look_up = figures.mib if name == "memory" else figures.ns
        table.add_row(short_name(case), *(figure(look_up(peer, case)) for peer in peers))
    return table


Guard: TypeAlias = Callable[[Path], AbstractContextManager[None]]
"""Makes the context in which a run's folder is written."""


def main(
    options: Options,
    console: Console | None = None,
    guard: Guard = lambda _: nullcontext(),
) -> Exit:
    """Runs, prints and writes under `options.out`; returns 0 good, 1 results disagree, 3 a peer failed.

    Several runs have the folders run-1, run-2 and so on, beside `ranges.jsonl`. `guard` wraps the writing of each
    folder.
    """
    console = console or Console()
    reports = []
    for number in range(1, options.runs + 1):
        before = Load.now()
        report = run(options, lambda text: console.print(text, markup=False, highlight=False))
        reports.append(report)
        show(report, console)
        if options.out is not None:
            out = options.out if options.runs == 1 else options.out / f"run-{number}"
            has_java = any(row["peer"] in ("java", NEWEST_JAVA) for row in report.rows)
            about = facts(before) | ({"jvm": jvm_name(Path(java_tool("java")))} if has_java else {})
            with guard(out):
                write(report, out, about)
            console.print(f"written to {out}: rivals.jsonl, targets.jsonl, report.html", markup=False)
    if options.runs > 1:
        _show_ranges(reports, options.out, console, guard)
    codes = {report.exit_code for report in reports}
    return Exit.FAILED if Exit.FAILED in codes else max(codes)


def _show_ranges(reports: Sequence[Report], out: Path | None, console: Console, guard: Guard) -> None:
    """Prints and writes the range of each target's figures over all runs."""
    found = rival_ranges.ranges([report.targets for report in reports])
    console.print(rival_ranges.table(found))
    console.print(rival_ranges.summary(found), markup=False)
    if out is not None:
        result_files.clear(out)
        rows = ({name: getattr(each, name) for name in each.__slots__} for each in found)
        with guard(out):
            result_files.write_lines(out / "ranges.jsonl", rows)
        console.print(f"written to {out}: ranges.jsonl, and a folder a run", markup=False)
