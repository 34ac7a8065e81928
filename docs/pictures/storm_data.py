"""The storms whose figures the documentation prints: their commands, and what is kept of their results.

`storms.json` has, by the name of a storm, the day, the machine and a row for each size, scenario and target. The
picture (storms.py) and every table of storms (storm_tables.py) are made from it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "storms.json"
KRAFT, KRAFT_4_3, ZK = ("kafka-4.4.0", "kcore-kraft"), ("kafka-4.3.1", "kcore-kraft"), ("kafka-3.9.1-zk", "kcore-zk")
COMPARED = {"million": KRAFT_4_3, "zookeeper": ZK, "zookeeper-300": ZK}
"""By name of a storm: the two targets that its table in storms.md compares; `KRAFT` where it is not named."""
RELEASES = ("kafka-3.9.1", "kafka-4.0.2", "kafka-4.1.2", "kafka-4.2.2", "kafka-4.3.1", *KRAFT)
"""The targets of releases.md in KRaft mode, the oldest first."""
NAMES = {name: f"Kafka {name.removeprefix('kafka-')}" for name in RELEASES[:-1]}
NAMES |= {"kcore-kraft": "kcore", ZK[0]: "Kafka 3.9.1, ZooKeeper mode", ZK[1]: "kcore, ZooKeeper mode"}
"""How pages and pictures name the targets."""
_KRAFT, _KRAFT_4_3, _RELEASES, _ZK = (
    " ".join(f"--target {name}" for name in names) for names in (KRAFT, KRAFT_4_3, RELEASES, ZK)
)
_CHANGES = "create broker-lost controlled-shutdown"
COMMANDS = {
    "kraft": f"{_CHANGES} {_RELEASES} --partitions 100k --heap 4g --metadata count --repeat 3",
    "quorum": f"{_CHANGES} controller-killed {_RELEASES} --controllers 3 --partitions 100k --heap 3g "
    "--metadata count --repeat 3",
    "300-brokers": f"{_CHANGES} {_RELEASES} --brokers 300 --partitions 20k --heap 4g --metadata count --repeat 3",
    "million": f"{_CHANGES} {_KRAFT_4_3} --partitions 1M --heap 5g --metadata count --repeat 3",
    "many-brokers": f"register create heartbeat broker-lost controlled-shutdown {_KRAFT} --brokers 1000 "
    "--partitions 50k --heap 4g --metadata count --repeat 3",
    "zookeeper": f"failover broker-lost controlled-shutdown bounce {_ZK} --partitions 100k --heap 4g --repeat 3",
    "zookeeper-300": f"failover broker-lost controlled-shutdown {_ZK} --brokers 300 --partitions 20k --heap 4g "
    "--repeat 3",
}
"""By name of a storm: the arguments of `./kcore storm`. All have 20 brokers where they do not say otherwise."""
MEDIANS = ("controller_cpu_s", "controller_rss_mb", "heartbeat_p99_ms", "elected", "session_ms")
KEYS = ("scenario", "target", "brokers", "partitions", "controllers", "repetitions")

Storm = dict[str, Any]
Row = dict[str, Any]


def kept(result: dict[str, Any]) -> Storm:
    """A storm's medians.json as storms.json has it. Raises SystemExit where a repetition did not count."""
    facts = result["facts"]
    left_out = [
        f"{row['scenario']} of {row['target']}: {row['excluded']}" for row in result["medians"] if row["excluded"]
    ]
    if left_out:
        raise SystemExit("not published, since repetitions do not count: " + "; ".join(left_out))
    return {
        "when": facts["when"][:10],
        "processor": facts["machine"]["processor"],
        "cores": facts["machine"]["cores"],
        "versions": {name: facts["versions"][name] for name in ("kcore", "python")},
        "rows": [_kept_row(row) for row in result["medians"]],
    }


def _kept_row(row: Row) -> Row:
    works = [round(ms, 2) for ms in row.get("work_ms", {"values": []})["values"]]
    medians = {name: row[name]["median"] for name in MEDIANS if name in row}
    return {name: row[name] for name in KEYS} | {"work_ms": works} | medians


def load() -> dict[str, Storm]:
    return dict(json.loads(DATA.read_text(encoding="utf-8")))


def save(storms: dict[str, Storm]) -> None:
    DATA.write_text(json.dumps(storms, indent=1) + "\n", encoding="utf-8")


def pairs(storm: Storm, partitions: int, targets: tuple[str, str] = KRAFT) -> Iterator[tuple[str, Row, Row]]:
    """The scenarios of one size that have both targets: the name, the row of Kafka's controller and of kcore's."""
    rows = {(row["scenario"], row["target"]): row for row in storm["rows"] if row["partitions"] == partitions}
    for scenario in dict.fromkeys(scenario for scenario, _ in rows):
        if (scenario, targets[0]) in rows and (scenario, targets[1]) in rows:
            yield scenario, rows[scenario, targets[0]], rows[scenario, targets[1]]
