"""`kcore image`: the counts of a cluster from a file that describes it, and its partitions in trouble."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from kcore.cli.console import cell, fail, say, wide_console
from kcore.cli.files.arrow_file import write_feather
from kcore.cli.files.cluster_file import SOURCES, cluster_in
from kcore.cli.options.command_config import CommandConfigOption
from kcore.constants import NO_BROKER_ROW, NO_LEADER
from kcore.errors import KcoreError
from kcore.extras import needs
from kcore.measure.report.exits import Exit
from kcore.metadata.table.partition_state import PartitionState
from kcore.metadata.table.partition_table import PartitionTable
from kcore.printable import printable
from kcore.storage.tools.dump import compact
from kcore.types import Int32s

SHOWN: Final = 20  # Partitions of each kind that are listed without an option.


def command(
    source: Annotated[str, typer.Argument(help=SOURCES)],
    offline: Annotated[bool, typer.Option("--offline", help="List all partitions that are offline.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="List all partitions that are under-replicated.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The counts, and both complete lists, as JSON.")] = False,
    arrow: Annotated[Path | None, typer.Option(metavar="FILE", help="Write partitions to an Arrow IPC file.")] = None,
    command_config: CommandConfigOption = None,
) -> None:
    """Summarise a cluster: its brokers, its topics, and its partitions that are offline or under-replicated.

    Without an option, the command lists the first 20 partitions of each kind. Exit code: 0 good, 1 the log could be
    read only in part, 2 usage.
    """
    listed = tuple(kind for kind, wanted in zip(TROUBLES, (offline, under_replicated), strict=True) if wanted)
    raise typer.Exit(run(source, listed, json, arrow, command_config))


def run(
    source: str,
    listed: tuple[str, ...],
    as_json: bool = False,
    arrow: Path | None = None,
    command_config: Path | None = None,
) -> Exit:
    """Prints the summary or lists, and writes the Arrow file; exit code 1 if the log is torn or damaged."""
    try:
        found = cluster_in(source, command_config)
        table = found.image.table
        if arrow is not None:
            write_arrow(table, arrow)
    except (KcoreError, OSError) as error:
        fail(str(error) if source in str(error) else f"{source}: {error}")
    if as_json:
        lists = {f"{kind}Partitions": [_as_json(each) for each in partitions_in(table, kind)] for kind in TROUBLES}
        say(compact(summary(table) | lists))
    elif listed:
        for kind in listed:
            _list(table, kind, None)
    else:
        _show(summary(table), wide_console())
        for kind in TROUBLES:
            _list(table, kind, SHOWN)
    return found.report()


def summary(table: PartitionTable) -> dict[str, Any]:
    """The counts of the cluster and of each broker."""
    living = table.topic_row__p >= 0
    replicas, isr, leaders = table.replicas__ps[living], table.isr__pi[living], table.leader__p[living]
    preferred = replicas[:, 0] if replicas.shape[1] else leaders
    count = len(table.brokers)
    led, first = (np.bincount(rows[rows >= 0], minlength=count) for rows in (leaders, preferred))
    held, in_sync = (np.bincount(rows[rows >= 0].ravel(), minlength=count) for rows in (replicas, isr))
    return {
        "topics": table.topics.count,
        "partitions": table.partition_count,
        "offline": len(table.offline()),
        "underReplicated": len(table.under_replicated()),
        "notPreferred": int(((leaders != preferred) & (leaders != NO_BROKER_ROW)).sum()),
        "moving": len(table.adding.keys() | table.removing.keys()),
        "brokers": [
            {
                "id": int(table.brokers.ids[row]),
                "live": bool(table.brokers.live[row]),
                "shuttingDown": bool(table.brokers.shutting_down[row]),
                "epoch": int(table.brokers.epochs[row]),
                "rack": table.brokers.racks[row],
                "leaders": int(led[row]),
                "preferredLeaders": int(first[row]),
                "replicas": int(held[row]),
                "inSync": int(in_sync[row]),
            }
            for row in np.argsort(table.brokers.ids).tolist()
        ],
    }


class Trouble(NamedTuple):
    """A kind of trouble that a partition may have."""

    name: str
    option: str  # The option that lists all of them.
    rows: Callable[[PartitionTable], Int32s]


TROUBLES: Final = {
    "offline": Trouble("offline", "--offline", PartitionTable.offline),
    "underReplicated": Trouble("under-replicated", "--under-replicated", PartitionTable.under_replicated),
}


def partitions_in(table: PartitionTable, kind: str, most: int | None = None) -> list[PartitionState]:
    """The first `most` partitions in this kind of trouble, by topic and number; without `most` all of them."""
    rows = TROUBLES[kind].rows(table)
    names = table.topics.names
    topics = np.unique(table.topic_row__p[rows])
    rank__t = np.zeros(len(names), np.int64)
    rank__t[sorted(topics.tolist(), key=lambda topic: names[topic])] = np.arange(len(topics))
    order = np.lexsort((table.partition_index__p[rows], rank__t[table.topic_row__p[rows]]))
    return [*table.states(rows[order[:most]])]


def _as_json(state: PartitionState) -> dict[str, Any]:
    return {
        "topic": state.topic,
        "partition": state.partition,
        "leader": state.leader,
        "replicas": state.replicas,
        "isr": state.isr,
    }


def _list(table: PartitionTable, kind: str, most: int | None) -> None:
    """Prints one line per partition. If `most` leaves out partitions, the last line names the option that lists all."""
    trouble = TROUBLES[kind]
    count = len(trouble.rows(table))
    if most is None and not count:
        say(f"no partition is {trouble.name}")
    for state in partitions_in(table, kind, most):
        leader = "none" if state.leader == NO_LEADER else state.leader
        replicas, isr = (",".join(map(str, brokers)) or "none" for brokers in (state.replicas, state.isr))
        name = printable(f"{state.topic}-{state.partition}")
        say(f"{trouble.name}: {name}  leader {leader}  replicas {replicas}  isr {isr}")
    if most is not None and count > most:
        say(f"{trouble.name}: {count - most:,} more; {trouble.option} lists all")


def _show(figures: dict[str, Any], console: Console) -> None:
    facts = [f"{figures[name]:,} {label}" for name, label in (("topics", "topics"), ("partitions", "partitions"))]
    facts += [
        f"{figures['offline']:,} offline",
        f"{figures['underReplicated']:,} under-replicated",
        f"{figures['notPreferred']:,} not led by the preferred",
        f"{figures['moving']:,} moving",
    ]
    console.print(", ".join(facts), highlight=False)
    table = Table("broker", "state", "epoch", "rack", "leaders", "preferred", "replicas", "in sync")
    for broker in figures["brokers"]:
        state = "down" if not broker["live"] else "shutting down" if broker["shuttingDown"] else "live"
        counts = (broker[name] for name in ("leaders", "preferredLeaders", "replicas", "inSync"))
        table.add_row(
            str(broker["id"]), state, str(broker["epoch"]), cell(broker["rack"]), *(f"{each:,}" for each in counts)
        )
    console.print(table)


def write_arrow(table: PartitionTable, arrow: Path) -> None:
    """Writes the partitions to an Arrow IPC file (Feather 2), one row each; brokers are ids."""
    with needs("arrow"):
        from kcore.metadata.table.table_arrow import partitions_as_arrow

    write_feather(partitions_as_arrow(table), arrow)
