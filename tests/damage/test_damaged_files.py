"""A sample of ci/damage, and the same damage beside what Kafka's controllers made of it."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

import cases
from damage.changes import KINDS, WHOLE, Change, apply, changes_of
from damage.command import Source, main, sources
from damage.subjects import FOLDER, SMALL, SUBJECTS, gone_from, on_disk
from kcore.errors import KcoreError
from kcore.storage.raft.file_raft_log import DiskRaftLog

RECORDED = cases.load("damaged_logs_4.3.1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Source]]:
    yield {source.subject: source for source in sources(tmp_path_factory.mktemp("sources"))}


def test_undamaged_folders_are_read_whole(made: dict[str, Source], tmp_path: Path) -> None:
    for source in made.values():
        shutil.copytree(source.folder, tmp_path / source.subject)
        _, look = SUBJECTS[source.subject]
        outcome = look(tmp_path / source.subject, source.whole, set_aside=False, same_epochs=True)
        assert outcome in ("read opened", "opened")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_damage_takes_whole_batches_or_is_passed_over(subject: str, made: dict[str, Source], tmp_path: Path) -> None:
    """Ten changes, of which the kinds differ; ci/damage makes all."""
    dice, source = Random(subject), made[subject]
    changes = list(changes_of(source.folder))
    for kind in dice.sample([*KINDS, WHOLE], 10):
        change = dice.choice([each for each in changes if each.kind == kind])
        source.check(change, tmp_path, set_aside=dice.random() < 0.5)


@pytest.mark.long
def test_no_change_at_all_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--every", "7"]) == 0, capsys.readouterr().out


def opens(folder: Path) -> str:
    """As KafkaOpens.java prints it."""
    try:
        log = DiskRaftLog(folder / FOLDER, SMALL)
    except KcoreError:
        return "refused"
    found = f"opened {log.start_offset} {log.end_offset}"
    log.abandon()
    return found


def compare(rows: Sequence[dict[str, Any]], made: dict[str, Source], scratch: Path) -> None:
    """No whole batch goes. kcore refuses where Kafka deletes some, and opens where Kafka does, to the same offset."""
    for row in rows:
        case = scratch / "case"
        shutil.copytree(made[row["subject"]].folder, case)
        change = Change(row["file"], row["kind"], row["part"])
        apply(case, change)
        before = on_disk(case)
        found = opens(case)
        assert before.total() == row["batches"], change
        is_closed = row["subject"] != "metadata"  # Below its recovery point damage is found by reading.
        assert not gone_from(case, before), change
        if row["gone"] and not is_closed:
            assert found == "refused", change
        elif found != "refused" and not is_closed:
            assert found.split()[2] == row["kafka"].split()[2], change
        shutil.rmtree(case)


def test_kcore_refuses_where_kafka_deletes_batches(made: dict[str, Source], tmp_path: Path) -> None:
    assert len(RECORDED) == 200 and sum(row["gone"] > 0 for row in RECORDED) > 20
    compare(RECORDED[::8], made, tmp_path)


@pytest.mark.long
def test_kcore_refuses_wherever_kafka_deletes_batches(made: dict[str, Source], tmp_path: Path) -> None:
    compare(RECORDED, made, tmp_path)
