"""The answers of `kcore whatif`: sentences, tables for a terminal and a page, and rows for files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from rich.table import Table

from kcore.cli.console import cell
from kcore.constants import NO_LEADER
from kcore.whatif import Health, Outcome, PairOutcomes, RestartPlan, WhatIf

SHOWN: Final = 20  # Partitions of a scenario, or pairs, that are listed.
LISTED: Final = {
    "without_leader": "without a leader",
    "at_risk": "at risk",
    "unclean_leaders": "led by a replica that lacks records",
    "under_min_isr": "under min ISR",
}


class AnswerTable(NamedTuple):
    """A table of cells as text."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def rich(self) -> Table:
        """The table for a terminal."""
        table = Table(*self.head, title=self.title or None)
        for column in table.columns[1:]:
            column.justify = "right"
        for row in self.rows:
            table.add_row(*map(cell, row))
        return table


@dataclass(frozen=True)
class Answer:
    """The answer to one question; `question` is "outcomes", "pairs" or "restart"."""

    question: str
    asked: WhatIf
    sentences: list[str]
    tables: list[AnswerTable]
    rows: list[dict[str, Any]]
    outcomes: Sequence[Outcome] = ()
    pairs: PairOutcomes | None = None


_COUNTS: Final = {
    "partitions": "partitions",
    "new_without_leader": "no leader",
    "new_under_min_isr": "under min ISR",
    "new_one_in_sync": "one in sync",
    "moved_leaders": "leaders move",
    "unclean_leaders": "unclean",
    "at_risk": "at risk",
}


def outcomes_answer(asked: WhatIf, outcomes: Sequence[Outcome]) -> Answer:
    """The outcomes of scenarios; of a single one with the partitions concerned."""
    rows = [each.as_row() for each in outcomes]
    head = ("lost", *_COUNTS.values(), "most loaded", "skew")
    lines = [
        (
            row["scenario"],
            *(f"{row[name]:,}" for name in _COUNTS),
            _load(row["most_loaded"], row["most_leaders"]),
            f"{row['skew']:.2f}",
        )
        for row in rows
    ]
    tables = [AnswerTable("", head, lines)]
    if len(outcomes) == 1:
        tables += _partitions(asked, outcomes[0])
    return Answer("outcomes", asked, [_before(asked.health)], tables, rows, outcomes)


def _load(broker: int, leaders: int) -> str:
    return "none" if broker == NO_LEADER else f"{broker} ({leaders:,})"


def _before(health: Health) -> str:
    return (
        f"now: {health.without_leader:,} without a leader, {health.under_min_isr:,} under min ISR, "
        f"{health.one_in_sync:,} with one in-sync replica, skew of leaders {health.skew:.2f}"
    )


def _partitions(asked: WhatIf, outcome: Outcome) -> list[AnswerTable]:
    """The first partitions of each kind, as they are before the loss."""
    table = asked.cluster.table
    found = []
    for kind, name in LISTED.items():
        rows = outcome.rows(kind)
        lines: list[tuple[str, ...]] = [
            (f"{state.topic}-{state.partition}", str(state.leader), _ids(state.replicas), _ids(state.isr))
            for state in table.states(rows[:SHOWN])
        ]
        if lines:
            title = f"{name}: {len(rows):,}" + (f", the first {SHOWN}" if len(rows) > SHOWN else "")
            found.append(AnswerTable(title, ("partition", "leader now", "replicas", "ISR now"), lines))
    return found


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def pairs_answer(asked: WhatIf, pairs: PairOutcomes) -> Answer:
    """All pairs: how many of them harm partitions, and the worst ones."""
    names = {"without_leader": "no leader", "under_min_isr": "under min ISR", "at_risk": "at risk"}
    base = asked.health
    harmful = pairs.counts("without_leader") > base.without_leader
    short = pairs.counts("under_min_isr") > base.under_min_isr
    sentence = (
        f"{len(pairs):,} pairs of brokers: {int(harmful.sum()):,} leave partitions without a leader, "
        f"{int(short.sum()):,} take partitions under min ISR"
    )
    lines = [
        (
            f"{row['broker']}, {row['other_broker']}",
            *(f"{row[name]:,}" for name in names),
            _load(row["most_loaded"], row["most_leaders"]),
            f"{row['skew']:.2f}",
        )
        for row in pairs.worst(SHOWN)
    ]
    table = AnswerTable("the worst pairs", ("lost", *names.values(), "most loaded", "skew"), lines)
    return Answer("pairs", asked, [_before(base), sentence], [table], pairs.as_rows(), pairs=pairs)


_RISKS: Final = {
    "rf1_offline": "RF 1 offline",
    "unavailable": "unavailable",
    "acks_all_unavailable": "acks=all refused",
    "acks1_data_loss": "acks=1 may be lost",
    "unclean_data_loss": "unclean",
    "last_replica": "last replica",
}


def restart_answer(asked: WhatIf) -> Answer:
    """The risks of each broker's restart, and the steps of a rolling restart."""
    risks, plan = asked.restart_risks(), asked.restart_plan()
    step_of = {broker: number for number, step in enumerate(plan.steps, start=1) for broker in step.brokers}
    rows = [risk.as_row() | {"step": step_of[risk.broker]} for risk in risks]
    risk_lines = [
        (str(row["broker"]), *(f"{row[name]:,}" for name in _RISKS), "yes" if row["is_safe"] else "no") for row in rows
    ]
    counts = ("moved_leaders", "without_leader", "under_min_isr")
    step_lines = [
        (str(number), _ids(step.brokers), *(f"{getattr(step, name):,}" for name in counts))
        for number, step in enumerate(plan.steps, start=1)
    ]
    tables = [
        AnswerTable("restart of one broker", ("broker", *_RISKS.values(), "safe"), risk_lines),
        AnswerTable("rolling restart", ("step", "brokers", "leaders move", "no leader", "under min ISR"), step_lines),
    ]
    return Answer("restart", asked, _about(plan), tables, rows)


def _about(plan: RestartPlan) -> list[str]:
    fewest = "no plan has fewer" if plan.is_fewest_steps else f"any plan has at least {plan.fewest_steps}"
    moves = "no order of the steps moves" + (" fewer" if plan.is_fewest_moves else f" less than {plan.fewest_moves:,}")
    found = [f"{len(plan.steps)} steps ({fewest}); leaders move {plan.moved_leaders:,} times ({moves})"]
    if plan.unavoidable:
        count = sum(plan.unavoidable.values())
        found.append(
            f"{len(plan.unavoidable)} brokers take partitions under min ISR in any plan, {count:,} in all: "
            "these partitions have no in-sync replica to spare"
        )
    return found
