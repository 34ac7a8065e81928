"""ci/chaos: rounds of oracle.chaos.chaos until so many were killed, a line for each, and one that sums up."""

import argparse
import logging
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from oracle.chaos.chaos import KINDS, chaos, play

EXITS = "Exit code: 0 nothing was found, 1 a finding, or the cluster could not be started, 2 usage."


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        "ci/chaos",
        description="Two kcore controllers and three brokers over ZooKeeper, clients that go on, and kill -9 of"
        " controller, broker and ZooKeeper in turn at seeded random moments; now and then somebody sleeps until his"
        " session is lost, or all lose theirs. After each round of six kills no acknowledged record may be missing or"
        " there twice, and every partition must have a leader and its whole ISR; at the end Kafka's own consumer reads"
        " all. It takes about four seconds a kill, Java, and the jars of Kafka 3.9.1.",
        epilog=EXITS,
    )
    parser.add_argument("--brokers", choices=("kafka", "kcore"), default="kafka", help="whose they are (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the victims (%(default)s)")
    parser.add_argument("--kills", type=int, default=200, help="no round begins after so many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round (%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins after this time")
    parser.add_argument("--logs", type=Path, help="where the logs stay; otherwise they go if nothing is found")
    options = parser.parse_args(arguments)
    if options.kills < 1:
        parser.error("--kills must be at least 1")
    return options


class Run:
    """Rounds, and what was counted in them."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.kills: Counter[str] = Counter()
        self.pauses: Counter[str] = Counter()
        self.rounds = self.acknowledged = 0
        self.missing: list[str] = []
        self.twice: dict[str, int] = {}
        self.faults: list[str] = []
        self.begin_s = time.monotonic()

    def play(self) -> None:
        """All rounds. AssertionError for what a round found."""
        options = self.options
        with chaos(self.folder, kcore_brokers=options.brokers == "kcore") as made:
            while self.kills.total() < options.kills and time.monotonic() - self.begin_s < options.seconds:
                begin_s, number = time.monotonic(), options.first + self.rounds
                blows, self.acknowledged = play(made, options.seed, number)
                self.rounds += 1
                for blow in blows:
                    (self.kills if blow.how == "killed" else self.pauses)[blow.kind] += 1
                print(
                    f"round {number}: {'; '.join(map(str, blows))}. Whole after {time.monotonic() - begin_s:.1f} s;"
                    f" {self.kills.total()} kills, {self.acknowledged:,} records acknowledged, all there",
                    flush=True,
                )
            self.acknowledged, self.missing, self.twice = made.end()
            self.faults = made.all_faults()
            made.keep_logs()

    def summary(self) -> str:
        """One line."""
        took_s = time.monotonic() - self.begin_s
        kinds = ", ".join(f"{self.kills[kind]} {kind}" for kind in KINDS)
        pauses = ", ".join(f"{count} {kind}" for kind, count in sorted(self.pauses.items())) or "none"
        each_s = took_s / max(self.kills.total(), 1)
        return (
            f"seed {self.options.seed}, {self.options.brokers} brokers: {self.kills.total()} kills ({kinds}) in"
            f" {self.rounds} rounds and {took_s:.0f} s, {each_s:.1f} s each; sessions ended by pauses: {pauses};"
            f" {self.acknowledged:,} records acknowledged, {len(self.missing)} missing, {len(self.twice)} duplicates,"
            f" {len(self.faults)} faults in logs"
        )

    def findings(self) -> list[str]:
        """The findings of the end, in words."""
        found = {"missing": self.missing, "more than once": [*self.twice], "in the logs": self.faults}
        return [f"{what}: {items[:5]}" for what, items in found.items() if items]

    def again(self) -> str:
        """How to repeat it."""
        options = self.options
        kills = f"--first {options.first} --kills {max(self.kills.total(), 1)}"
        return f"ci/chaos --brokers {options.brokers} --seed {options.seed} {kills}"


def main(arguments: list[str] | None = None) -> int:
    """The command line of ci/chaos; its exit code."""
    options = options_of(arguments)
    folder = options.logs or Path(tempfile.mkdtemp(prefix="kcore-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)  # Lost connections to ZooKeeper are expected here.
    run = Run(options, folder)
    found = []
    try:
        run.play()
        found = run.findings()
    except Exception:
        found = [traceback.format_exc()]
    print("\n".join([*found, run.summary()]), flush=True)
    if found:
        print(f"ci/chaos: FOUND; the logs are in {folder}; again, if it is not chance: {run.again()}", file=sys.stderr)
        return 1
    if not options.logs:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
