"""ci/hostile: every kind of attackers at every server, a line for each, and a JSON file beside the table."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from hostile.attacks import ATTACKS, OVER_TLS
from hostile.campaign import Row, measured
from hostile.servers import NEEDS_JAVA, SERVERS, Running, started
from kcore.cli.servers.server_process import use_all_descriptors

MOST_RATIO = 3.0
EPILOG = f"""Attackers are one process, whose connections come from 127.0.0.2 to 127.0.0.21; what they try in a second
is in the table beside what the server let them do. The well-behaved client sends a request each 10 ms; its times are
medians over the rounds, its ratio is the median of the rounds' p99 beside the attackers over p99 alone. All share
this machine, where attackers have a lower priority: with few cores the ratio still has some of their own CPU time in
it, which the column of cores (server's and attackers') tells, and where other work runs beside them it means nothing.
With an authorizer clients at 127.0.0.1 have all rights, others none; producers of bombs and slow readers are there,
too. {" and ".join(NEEDS_JAVA)} need Java for ZooKeeper. Memory, descriptors and threads are those before, at most and
after. Exit code: 0 no finding, 1 a finding (something was not refused, memory, descriptors, threads or the log grew
without bound, a fault in the log, the client was not served), 2 usage, 3 only the ratio is above {MOST_RATIO:g}."""


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The parsed options of the command line."""
    parser = argparse.ArgumentParser(
        "ci/hostile", description="Hostile peers against kcore's servers, beside a well-behaved client.", epilog=EPILOG
    )
    parser.add_argument("--server", choices=SERVERS, action="append", help="may be given again; default: all")
    parser.add_argument("--attack", choices=ATTACKS, action="append", help="may be given again; default: all")
    parser.add_argument("--seconds", type=float, default=4.0, help="of one turn, alone or beside (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="alone and beside in turn, so often (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of what attackers send (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures and outcomes")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="where the servers' logs stay")
    options = parser.parse_args(arguments)
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds and --rounds must be positive")
    return options


HEAD = (
    f"{'server':<17}{'attack':<24}{'tried':>7}{'done':>7}  {'RSS MiB':>16}  {'descriptors':>16}  {'threads':>10}"
    f"  {'alone p50/p99':>15}  {'beside p50/p99':>16}{'ratio':>7}  {'cores':>10}  outcomes"
)


def line_of(row: Row) -> str:
    """One row of the table."""
    rss = "/".join(str(each >> 20) for each in (row.rss_before, row.rss_peak, row.rss_after))
    held = zip(row.held_before, row.held_peak, row.held_after, strict=True)
    descriptors, threads = ("/".join(map(str, each)) for each in held)
    alone, beside = (f"{row.p(which, 0):.2f}/{row.p(which, 1):.2f}" for which in ("alone", "beside"))
    outcomes = ", ".join(f"{name} {count:,}" for name, count in row.outcomes.most_common(4)) or "no such API here"
    cores = f"{row.server_cores:.2f}+{row.attackers_cores:.2f}"
    return (
        f"{row.server:<17}{row.attack:<24}{row.tried_per_s:>7,.0f}{row.per_s:>7,.0f}  {rss:>16}  {descriptors:>16}"
        f"  {threads:>10}  {alone:>15}"
        f"  {beside:>16}{row.ratio:>7.1f}  {cores:>10}  {outcomes}"
    )


def attack_all(server: str, options: argparse.Namespace, folder: Path) -> list[Row]:
    """Every kind at one server, which is the same all the while; those over TLS at one whose listener has TLS."""
    wanted = options.attack or [*ATTACKS]
    plain, over_tls = [each for each in wanted if each not in OVER_TLS], [each for each in wanted if each in OVER_TLS]
    rows = []
    for tls, attacks in ((False, plain), (True, over_tls)):
        if attacks:
            (folder / f"{tls}").mkdir()
            rows += _attack(server, attacks, options, folder / f"{tls}", tls=tls)
    return rows


def _attack(server: str, attacks: list[str], options: argparse.Namespace, folder: Path, *, tls: bool) -> list[Row]:
    rows = []
    with started(server, folder, tls=tls) as running:
        for attack in attacks:
            row = measured(running, attack, seconds=options.seconds, rounds=options.rounds, seed=options.seed)
            print(line_of(row), flush=True)
            for finding in row.findings:
                print(f"    FOUND: {finding}", flush=True)
            rows.append(row)
        _keep(running, options.logs)
    return rows


def _keep(running: Running, logs: Path | None) -> None:
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
        shutil.copy(running.log, logs / f"{running.target.server}.log")


def main(arguments: list[str] | None = None) -> int:
    """The command line of ci/hostile; its exit code."""
    options = options_of(arguments)
    use_all_descriptors()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f}, of {os.cpu_count()} cores; times in ms\n{HEAD}")
    rows: list[Row] = []
    failed = False
    for server in options.server or SERVERS:
        folder = Path(tempfile.mkdtemp(prefix="kcore-hostile-"))
        try:
            rows += attack_all(server, options, folder)
        except Exception:
            failed = True
            print(f"{server}: {traceback.format_exc()}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        settings = {"seconds": options.seconds, "rounds": options.rounds, "seed": options.seed}
        result = {**settings, "load": os.getloadavg()[0], "rows": [row.to_json() for row in rows]}
        options.json.write_text(json.dumps(result, indent=1))
    findings = sum(len(row.findings) for row in rows)
    slow = [f"{row.server}, {row.attack}: {row.ratio:.1f}" for row in rows if row.ratio > MOST_RATIO]
    print(f"{len(rows)} attacks, {findings} findings; p99 above {MOST_RATIO:g} times that alone: {slow or 'none'}")
    return 1 if failed or findings else 3 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
