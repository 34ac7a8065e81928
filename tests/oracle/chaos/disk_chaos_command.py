"""ci/chaos-disks: rounds of oracle.chaos.disk_chaos until so many faults were struck, and a line that sums up."""

import argparse
import logging
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from oracle.chaos.disk_chaos import Plan, Story, run
from oracle.chaos.disk_cluster import why_no_mounts
from oracle.chaos.disk_faults import KINDS, NEED_MOUNTS

EXITS = "Exit code: 0 nothing was found, 1 a finding, or the cluster could not be started, 2 usage, or no mounts."


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        "ci/chaos-disks",
        description="Three kcore brokers with three log directories each under kcore's KRaft controllers, replication"
        " factor 3, min.insync.replicas 2; an idempotent producer with acks=all and a consumer (librdkafka's) go on."
        f" Faults in turn, by seed: {', '.join(KINDS)}. Each round takes data from one broker only; after a round all"
        " ISRs are whole, and every replica is where the controller has it. At every checkpoint the replicas of a"
        " partition are equal byte for byte, and each acknowledged record is in them once and in order. It takes about"
        " four seconds a fault.",
        epilog=EXITS,
    )
    parser.add_argument("--seed", type=int, default=1, help="of victims and moments (%(default)s)")
    parser.add_argument("--faults", type=int, default=500, help="no round begins after so many (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first round (%(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="from one checkpoint to the next (%(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins after this time")
    parser.add_argument("--controllers", type=int, choices=(1, 3), default=3, help="how many (%(default)s)")
    parser.add_argument("--no-mounts", action="store_true", help=f"leave out what needs root: {', '.join(NEED_MOUNTS)}")
    parser.add_argument(
        "--any-broker", action="store_true", help="kill -9 hits any broker, more than one in a round; disks one alone"
    )
    parser.add_argument("--logs", type=Path, help="where copies of the nodes' logs stay in any case")
    options = parser.parse_args(arguments)
    for name in ("faults", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if not options.no_mounts and (why := why_no_mounts()):
        parser.error(f"a tmpfs cannot be mounted: {why}; --no-mounts leaves out {' and '.join(NEED_MOUNTS)}")
    return options


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # Once is enough: nothing stays mounted.
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """The command line of ci/chaos-disks; its exit code."""
    options = options_of(arguments)
    signal.signal(signal.SIGTERM, _end)
    logging.disable(logging.WARNING)
    plan = Plan(
        options.seed,
        options.faults,
        first=options.first,
        controllers=options.controllers,
        mounted=not options.no_mounts,
        anybody=options.any_broker,
        every=options.rounds,
        seconds=options.seconds,
        logs=options.logs,
    )
    story, begin_s, found = Story(options.seed), time.monotonic(), ""
    try:
        run(plan, story, lambda line: print(line, file=sys.stderr, flush=True))
    except Exception:
        found = traceback.format_exc()
        print(found, file=sys.stderr)
    print(f"{'FOUND' if found else 'good'}: {story.summary}; {time.monotonic() - begin_s:.0f} s", flush=True)
    if found:
        given = {"--no-mounts": options.no_mounts, "--any-broker": options.any_broker}
        flags = "".join(f" {name}" for name, is_given in given.items() if is_given)
        flags += f" --controllers {options.controllers}"
        again = f"--seed {options.seed} --first {options.first} --faults {story.struck.total()}{flags}"
        print(f"ci/chaos-disks: again, if it is not chance: ci/chaos-disks {again}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
