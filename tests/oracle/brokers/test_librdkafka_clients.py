"""The checks of `librdkafka_clients` find records that are lost, doubled or out of order, and broken transactions."""

import pytest

from oracle.chaos.kraft_registers import Violation
from oracle.librdkafka_clients import CommittedReader, Found, Transactor, Writer


def found(*values: str, partition: int = 0) -> list[Found]:
    return [Found(partition, offset, value) for offset, value in enumerate(values)]


def test_what_was_acknowledged_is_there_once_and_in_order() -> None:
    writer = Writer("a", "", "t")
    writer.acknowledged = ["a.0", "a.1"]
    writer.check_records(found("a.0", "b.0", "a.1", "a.2"))
    for wrong, why in ((["a.0"], "are lost"), (["a.0", "a.1", "a.1"], "more than once"), (["a.1", "a.0"], "in order")):
        with pytest.raises(Violation, match=why):
            writer.check_records(found(*wrong))


def test_a_transaction_is_there_whole_or_not_at_all() -> None:
    writer = Transactor("x", "", "t", 3)
    writer.committed, writer.aborted, writer.unknown = [["x.1.0", "x.1.1"]], [["x.2.0"]], [["x.3.0", "x.3.1"]]
    committed = ["x.1.0", "x.1.1"]
    writer.check_records(found(*committed))
    writer.check_records(found(*committed, "x.3.0", "x.3.1"))
    wrongs = (["x.1.0"], [], [*committed, "x.2.0"], [*committed, "x.3.1"], [*committed, "x.1.0"], [*committed, "x.4.0"])
    for wrong in wrongs:
        with pytest.raises(Violation, match=r"there twice|is there|nobody wrote"):
            writer.check_records(found(*wrong))


def test_a_reader_saw_what_is_there_and_nothing_else() -> None:
    reader = CommittedReader("r", "", "t", 1)
    reader.found = {*found("x.1.0", "x.2.0")}
    reader.check_records(found("x.1.0", "x.2.0"))
    with pytest.raises(Violation, match="1 records seen by it alone"):
        reader.check_records(found("x.1.0"))
