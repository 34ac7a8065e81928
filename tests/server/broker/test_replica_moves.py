"""The move of a replica between directories on a real disk: a crash and a failed disk at each step."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kcore.metadata.table.directory_table import LOST_UUID
from kcore.protocol_errors import Errors
from kcore.server.broker import replica_moves
from server.moving import KEY, TOPIC, TP, MovingBroker, P, values_of

RECORDS = 12


def a_broker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> MovingBroker:
    """With a replica of several segments in a; b and c are empty. A slice is one batch."""
    monkeypatch.setattr(replica_moves, "SLICE_BYTES", 1)
    broker = MovingBroker(folder)
    broker.produce(RECORDS)
    assert broker.folders() == ["a/t-0"] and len([*(folder / "a/t-0").glob("*.log")]) > 1
    return broker


def asked_for(broker: MovingBroker) -> None:
    broker.send()
    assert broker.request is not None


# The steps of a move from a to b.
STEPS: dict[str, Callable[[MovingBroker], object]] = {
    "asked to move": lambda broker: broker.alter(broker.paths[1]),
    "future log made": lambda broker: broker.drain(1),
    "copy begun": lambda broker: broker.drain(),
    "half copied": lambda broker: broker.copy(RECORDS // 2),
    "caught up, queued": lambda broker: (broker.copy(RECORDS), broker.drain()),
    "request sent": asked_for,
    "controller wrote it": lambda broker: broker.write(),
    "image has it": lambda broker: broker.publish(),
    "behind again": lambda broker: broker.produce(),
    "caught up again": lambda broker: broker.copy(),
    "copy stopped": lambda broker: broker.drain(1),
    "renamed": lambda broker: broker.drain(1),
    "source deleted": lambda broker: broker.drain(),
}
NAMES = [*STEPS]
MADE = NAMES.index("future log made") + 1
SENT = NAMES.index("request sent") + 1
WRITTEN = NAMES.index("controller wrote it") + 1
RENAMED = NAMES.index("renamed") + 1
AT_EACH_STEP = pytest.mark.parametrize("count", range(len(NAMES) + 1), ids=["before", *NAMES])


def at_step(count: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> MovingBroker:
    """A broker for which that many steps have been taken."""
    broker = a_broker(folder, monkeypatch)
    for name in NAMES[:count]:
        STEPS[name](broker)
    return broker


@pytest.mark.covers("KIP-858 move 1", "KIP-858 move 2", "KIP-858 move 3")
def test_a_replica_moves_once_the_controller_has_agreed_and_it_has_caught_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = at_step(NAMES.index("controller wrote it"), tmp_path, monkeypatch)
    [folder] = (tmp_path / "b").glob("t-0.*-future")
    assert len(folder.name) == len("t-0.-future") + 32
    assert broker.log.folder == tmp_path / "a" / "t-0"
    broker.produce(3)
    broker.copy(4)
    assert values_of(broker.logs.directories[1].futures[TP]) == broker.acknowledged
    assert broker.log.folder == tmp_path / "a" / "t-0", "the controller has not answered yet"
    broker.write()
    broker.copy()
    broker.drain()
    assert broker.folders() == ["b/t-0"] and broker.log.folder == tmp_path / "b" / "t-0"
    broker.produce()
    assert broker.log.high_watermark == len(broker.acknowledged)
    broker.heal()
    broker.check_healed("b")
    broker.stop()
    broker.check_healed("b")


@AT_EACH_STEP
def test_a_crash_at_each_step_loses_nothing_and_the_move_goes_on(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.crash()
    broker.check()
    broker.produce()
    broker.heal()
    broker.check_healed("a" if count < MADE else "b")


@AT_EACH_STEP
def test_a_clean_stop_at_each_step_loses_nothing(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.stop()
    broker.check()
    broker.heal()
    assert broker.folders() in (["a/t-0"], ["b/t-0"])
    broker.check_healed(broker.folders()[0][0])


@AT_EACH_STEP
@pytest.mark.covers("KIP-858 move failure of the target")
def test_the_target_fails_at_each_step(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.fail(broker.logs.directories[1], "a test")
    broker.heal()
    if count < RENAMED:
        broker.check()
        assert broker.log.folder == tmp_path / "a" / "t-0" and broker.controller == broker.ids[0]
    else:
        assert broker.manager.partitions[KEY].log is None and broker.controller == broker.ids[1]
    broker.crash()  # The disk is back, with its files.
    broker.heal()
    broker.check_healed(broker.folders()[0][0])


@AT_EACH_STEP
@pytest.mark.covers("C10", "KIP-858 move failure of the source")
def test_a_move_survives_a_failure_of_the_source_at_each_step(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.fail(broker.logs.directories[0], "a test")
    broker.heal()
    if count < RENAMED:
        assert broker.manager.partitions[KEY].log is None
        # In the step "request sent" the broker reads the target in the log later, and assigns the failed source.
        assert broker.controller == (LOST_UUID if count > SENT else broker.ids[0])
    else:
        broker.check()
        assert broker.controller == broker.ids[1]
    broker.crash()
    broker.heal()
    broker.check_healed(broker.folders()[0][0])


@AT_EACH_STEP
def test_the_topic_is_deleted_at_each_step(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.delete_topic()
    broker.publish()
    broker.heal()
    assert broker.folders() == [] and len(broker.machine.moves) == 0


@AT_EACH_STEP
def test_the_topic_is_deleted_while_the_broker_is_down(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = at_step(count, tmp_path, monkeypatch)
    broker.delete_topic()
    broker.crash()
    assert broker.folders() == [] and len(broker.machine.moves) == 0


@AT_EACH_STEP
@pytest.mark.parametrize("name", ["a", "c"])
def test_another_directory_is_asked_for_at_each_step(
    count: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back to where it is, or on to a third one."""
    broker = at_step(count, tmp_path, monkeypatch)
    error = broker.alter(tmp_path / name)
    broker.heal()
    if error is Errors.REPLICA_NOT_AVAILABLE:  # It is being promoted.
        assert broker.alter(tmp_path / name) is Errors.NONE
        broker.heal()
    broker.check_healed(name)


def test_the_source_is_gone_at_the_start_and_the_controller_has_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The future log is promoted as it is, though it lacks a record: as in Kafka (recoverAbandonedFutureLogs).

    Other in-sync replicas have that record, and without any the disk was the only one that had it.
    """
    broker = at_step(NAMES.index("behind again") + 1, tmp_path, monkeypatch)
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").write_text("no directory")
    broker.crash()
    assert [each.path.name for each in broker.logs.directories.online] == ["b", "c"]
    assert broker.folders() == ["b/t-0"]
    assert broker.values() == broker.acknowledged[:-1]


def test_the_source_is_gone_at_the_start_and_the_controller_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The future log is left alone: the records may be where the controller has the replica."""
    broker = at_step(SENT, tmp_path, monkeypatch)
    (tmp_path / "a").rename(tmp_path / "away")
    (tmp_path / "a").write_text("no directory")
    broker.crash()
    assert not broker.machine.serves(P)
    assert [each for each in broker.folders() if each.endswith("-future")]
    (tmp_path / "a").unlink()
    (tmp_path / "away").rename(tmp_path / "a")
    broker.crash()
    broker.check()
    broker.heal()
    broker.check_healed("b")


# A crash at each operation on a file, in a process of its own.

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree", "os.listdir")


def killed_at(number: int, broker: MovingBroker, folder: Path) -> int:
    """The move in a child that dies before its so-manieth operation on a file of the directories; its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = number

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and str(arguments[0]).startswith(tuple(map(str, broker.paths))):
            left -= 1
            if left < 0:
                os._exit(9)

    try:
        sys.addaudithook(on_event)
        for name in NAMES:
            STEPS[name](broker)
            if name == "controller wrote it":
                (folder / "written").touch()
            if name == "behind again":
                (folder / "produced").touch()
    except BaseException:
        os._exit(1)
    os._exit(0)


@pytest.mark.long
def test_a_kill_before_each_operation_on_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far it came, there is one log in the end, with all records that were acknowledged."""
    number, ended = 0, 9
    seen: set[str] = set()
    while ended == 9:
        folder = tmp_path / str(number)
        folder.mkdir()
        broker = a_broker(folder, monkeypatch)
        ended = killed_at(number, broker, folder)
        assert ended in (0, 9)
        if (folder / "written").exists():
            broker.commit(broker.ids[1])
        seen.update(name.partition("/")[2][:4] + name[-7:] for name in broker.folders())
        if (folder / "produced").exists():
            broker.acknowledged.append(b"%d" % RECORDS)
        broker.crash()
        missing = len(broker.acknowledged) - len(broker.values())
        assert missing in (0, -1), "lost"
        broker.acknowledged = broker.values()
        broker.heal()
        broker.check_healed(broker.folders()[0][0])
        shutil.rmtree(folder)
        number += 1
    assert number > 30 and {each[-7:] for each in seen} >= {"-future", "-delete"}


# Failing disks, late records, and two moves at a time.


def test_a_record_that_comes_before_the_renaming_is_copied_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = at_step(NAMES.index("copy stopped") + 1, tmp_path, monkeypatch)
    broker.append()
    broker.drain()
    assert broker.log.folder == tmp_path / "a" / "t-0"
    broker.heal()
    broker.check_healed("b")


@pytest.mark.parametrize("name", ["half copied", "request sent", "copy stopped"])
def test_the_target_refuses_to_be_written_to(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes offline, and the replica stays where it is."""
    broker = at_step(NAMES.index(name) + 1, tmp_path, monkeypatch)
    [folder] = (tmp_path / "b").glob("*-future")
    folder.rename(tmp_path / "elsewhere")
    broker.produce(30)
    broker.heal()
    assert [each.path.name for each in broker.logs.directories.online] == ["a", "c"]
    broker.check()
    assert broker.controller == broker.ids[0]
    assert broker.alter(broker.paths[2]) is Errors.KAFKA_STORAGE_ERROR  # While a directory is offline.


def test_the_source_refuses_to_be_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes offline, and the replica is in the target all the same (LogManager.replaceCurrentWithFutureLog)."""
    broker = at_step(NAMES.index("renamed") + 1, tmp_path, monkeypatch)
    assert broker.logs.hold(KEY, TOPIC, is_new=False) is broker.log
    (tmp_path / "a" / "t-0").rename(tmp_path / "elsewhere")
    broker.heal()
    assert [each.path.name for each in broker.logs.directories.online] == ["b", "c"]
    broker.produce()
    broker.check()
    assert broker.controller == broker.ids[1]


def test_a_broken_batch_of_the_source_holds_up_the_move_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = a_broker(tmp_path, monkeypatch)
    last = max((tmp_path / "a" / "t-0").glob("*.log"))
    whole = last.read_bytes()
    last.write_bytes(whole[:-1] + b"?")
    broker.alter(broker.paths[1])
    broker.heal()
    assert len(broker.logs.directories.online) == 3 and broker.log.folder == tmp_path / "a" / "t-0"
    last.write_bytes(whole)
    broker.heal()
    broker.check_healed("b")


def test_copies_pause_while_their_limit_is_exceeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """replica.alter.log.dirs.io.max.bytes.per.second, over eleven windows of a second."""
    broker = a_broker(tmp_path, monkeypatch)
    quota = broker.manager.quotas.alter_log_dirs
    broker.alter(broker.paths[1])
    broker.drain()
    size = len(values_batch(broker))
    quota.limit = 2.5 * size
    future = broker.logs.directories[1].futures[TP]
    broker.copy(RECORDS)
    assert future.end_offset == 3, "the third batch exceeds the limit"
    assert quota.bytes == 3 * size
    broker.now_ms += 1_000
    broker.copy(RECORDS)
    assert future.end_offset == 3, "three batches in a second"
    broker.now_ms += 1_000
    broker.copy(RECORDS)
    assert future.end_offset == 6, "in two seconds five batches, and the one that exceeds the limit"
    quota.limit = None
    broker.copy(RECORDS)
    assert future.end_offset == 6, "the pause lasts for replica.fetch.backoff.ms"
    broker.now_ms += 1_000
    broker.copy(RECORDS)
    assert future.end_offset == RECORDS


def values_batch(broker: MovingBroker) -> bytes:
    """The first batch of the current log."""
    return broker.logs.directories[0].logs[TP].read(0, 1, RECORDS, at_least_one=True)
