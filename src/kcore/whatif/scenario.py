"""Scenarios: the brokers, racks and log directories that are lost together, by name, from arguments or from a file."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kcore.constants import NO_BROKER_ROW
from kcore.errors import ArgumentError, EncodeError, TableError
from kcore.metadata.table.broker_table import BrokerTable
from kcore.metadata.table.directory_table import RESERVED
from kcore.metadata.table.partition_table import PartitionTable
from kcore.printable import json_flaw
from kcore.suggestions import did_you_mean
from kcore.types import Uuid, is_whole

_KEYS: Final = ("name", "brokers", "racks", "directories")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Brokers, racks and log directories that are lost at the same time; `name` is for results."""

    brokers: tuple[int, ...] = ()
    racks: tuple[str, ...] = ()
    directories: tuple[Uuid, ...] = ()
    name: str = ""

    @classmethod
    def of(
        cls,
        brokers: Iterable[int] = (),
        racks: Iterable[str] = (),
        directories: Iterable[Uuid | str] = (),
        name: str = "",
    ) -> "Scenario":
        """A checked scenario; without a name it is named after what is lost. ArgumentError for anything else."""
        ids = _listed("brokers", brokers)
        if wrong := [each for each in ids if not is_whole(each)]:
            raise ArgumentError(f"a broker is its id, a whole number, not {wrong[0]!r:.60}")
        texts = _listed("racks", racks)
        if wrong := [each for each in (*texts, name) if not isinstance(each, str)]:
            raise ArgumentError(f"a rack and the name of a scenario are texts, not {wrong[0]!r:.60}")
        if wrong := [each for each in (*texts, name) if not _is_utf8(each)]:
            raise ArgumentError(f"a rack and the name of a scenario are UTF-8, and {wrong[0]!r:.60} is not")
        try:
            uuids = tuple(Uuid(each) for each in _listed("directories", directories))
        except EncodeError as error:
            raise ArgumentError(f"a log directory is the directory.id of its meta.properties: {error}") from None
        if not (ids or texts or uuids):
            raise ArgumentError("nothing is lost: name at least one broker, rack or log directory")
        kinds = {"broker": ids, "rack": texts, "directory": uuids}
        named = [f"{kind} {','.join(map(str, each))}" for kind, each in kinds.items() if each]
        return cls(tuple(map(int, ids)), texts, uuids, name or " + ".join(named))


class Losses(NamedTuple):
    """The rows of the brokers that are lost, and for each lost directory of another broker that broker's row.

    A broker that loses all its directories is lost.
    """

    brokers: tuple[int, ...]
    owner_of: dict[int, int]  # By the directory's row.


def losses_of(scenario: Scenario, table: PartitionTable) -> Losses:
    """The rows of what the scenario names; TableError, with the names that are known, for what the cluster lacks."""
    brokers = table.brokers
    rows = {_broker_row(brokers, broker) for broker in scenario.brokers}
    for rack in scenario.racks:
        found = [row for row, each in enumerate(brokers.racks) if each == rack]
        if not found:
            known = racks_of(brokers)
            others = f"there are {', '.join(known)}" if known else "no broker has a rack"
            raise TableError(f"no broker is in rack {rack!r}{did_you_mean(rack, known, others)}")
        rows.update(found)
    owners = {each: _owner(table, uuid) for uuid in scenario.directories for each in [_directory_row(table, uuid)]}
    # A broker without any directory left shuts down (LogManager.handleLogDirFailure).
    rows.update(owner for owner in owners.values() if {*brokers.directories[owner]} <= owners.keys())
    return Losses(tuple(sorted(rows)), {each: owner for each, owner in owners.items() if owner not in rows})


def racks_of(brokers: BrokerTable) -> list[str]:
    """The racks of live brokers, sorted."""
    return sorted({rack for rack, live in zip(brokers.racks, brokers.live, strict=True) if live and rack is not None})


def directories_of(table: PartitionTable) -> list[Uuid]:
    """The log directories that live brokers have registered, by broker."""
    directories = table.directories
    rows = [
        each
        for row in sorted(range(len(table.brokers)), key=lambda row: int(table.brokers.ids[row]))
        if table.brokers.live[row]
        for each in table.brokers.directories[row]
        if each >= len(RESERVED)
    ]
    return [directories.uuids[each] for each in rows]


def parse_scenarios(text: str) -> list[Scenario]:
    """The scenarios of a JSON file: `{"scenarios": [{"name": ..., "brokers": [1], "racks": [], "directories": []}]}`.

    ArgumentError names the scenario, the key and the value that are wrong.
    """
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"the scenarios are not JSON: {json_flaw(error)}") from None
    found = read.get("scenarios") if isinstance(read, dict) else None
    if not isinstance(found, list) or not found or len(read) > 1:
        raise ArgumentError('scenarios are JSON of the form {"scenarios": [{"name": "two", "brokers": [1, 2]}]}')
    return [_parsed(each, number) for number, each in enumerate(found, start=1)]


def _parsed(entry: Any, number: int) -> Scenario:
    if not isinstance(entry, dict):
        raise ArgumentError(f"scenario {number} is an object with {', '.join(_KEYS)}, not {entry!r:.60}")
    if unknown := [key for key in entry if key not in _KEYS]:
        raise ArgumentError(f"scenario {number}: unknown key {unknown[0]!r}{did_you_mean(unknown[0], _KEYS)}")
    for key in _KEYS[1:]:
        if not isinstance(entry.get(key, []), list):
            raise ArgumentError(f"scenario {number}: {key} is a list, not {entry[key]!r:.60}")
    try:
        return Scenario.of(**entry)
    except ArgumentError as error:
        raise ArgumentError(f"scenario {number}: {error}") from None


def _is_utf8(text: str) -> bool:
    """False for a text with a lone surrogate, which JSON can name and no file can hold."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _listed(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, (str, bytes)):
        raise ArgumentError(f"{name} are a list, not {given!r:.60}")
    try:
        return tuple(dict.fromkeys(given))
    except TypeError:
        raise ArgumentError(f"{name} are a list, not {given!r:.60}") from None


def _broker_row(brokers: BrokerTable, broker_id: int) -> int:
    if broker_id not in brokers:
        known = sorted(brokers)
        some = ", ".join(map(str, known[:10])) + (", ..." if len(known) > 10 else "")
        raise TableError(f"no broker {broker_id!r:.40} in the cluster; there are {some or 'none'}")
    return brokers.row(broker_id)


def _directory_row(table: PartitionTable, uuid: Uuid) -> int:
    row = table.directories.row(uuid)
    if row < len(RESERVED) or table.directories.owner__d[row] == NO_BROKER_ROW:
        known = len(directories_of(table))
        others = f"live brokers have registered {known}" if known else "the cluster's metadata names none"
        raise TableError(f"no broker has registered log directory {uuid}; {others}")
    return row


def _owner(table: PartitionTable, uuid: Uuid) -> int:
    return int(table.directories.owner__d[table.directories.row(uuid)])
