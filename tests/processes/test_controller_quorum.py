"""Controllers as processes: kcore's for real, and what both kinds get to read."""

import asyncio
import zipfile
from pathlib import Path
from random import Random

import pytest

from kcore.errors import TargetError
from kcore.measure.hollow.quorum_client import Quorum
from kcore.measure.processes import kafka_quorum
from kcore.measure.processes.controller_quorum import FIRST_NODE_ID, ControllerQuorum
from kcore.measure.processes.kafka_quorum import KafkaQuorum
from kcore.measure.processes.kcore_quorum import KcoreQuorum
from kcore.measure.processes.target import TOOL_PROPERTIES


async def leader_of(quorum: ControllerQuorum) -> int:
    client = Quorum(quorum.bootstrap, random=Random(1))
    await client.open()
    try:
        return client.leader_id
    finally:
        await client.close()


@pytest.mark.long
def test_three_controllers_elect_one_and_another_when_that_is_killed() -> None:
    with KcoreQuorum(controllers=3) as quorum:
        first = asyncio.run(leader_of(quorum))
        [active] = [node for node in quorum.nodes if node.node_id == first]
        usage = active.usage()
        assert usage is not None and usage.rss_bytes > 0
        active.kill()
        assert active.usage() is None
        assert asyncio.run(leader_of(quorum)) in {node.node_id for node in quorum.nodes} - {first}
        active.start(wait=False)
    codes = {node.node_id: node.wait() for node in quorum.nodes}
    assert codes.pop(first) in (0, -15), "it may not have been ready yet"
    assert [*codes.values()] == [0, 0], "SIGTERM is a clean end"
    assert not quorum.folder.exists()


def test_a_failed_start_of_a_controller_shows_the_end_of_its_log() -> None:
    quorum = KcoreQuorum(properties="broker.session.timeout.ms=soon")
    with pytest.raises(TargetError, match=r"not formatted: .*give a number from 1"), quorum:
        pass
    assert not quorum.folder.exists()


@pytest.mark.long
def test_both_kinds_of_controllers_get_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script stands for Java."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\ncase "$*" in *StorageTool*) exit 0;; esac\necho Kafka Server started\nexec sleep 60\n')
    java.chmod(0o755)
    monkeypatch.setattr(kafka_quorum, "java_home", lambda: tmp_path)
    monkeypatch.setattr(kafka_quorum, "kafka_jars", lambda release: tmp_path)
    monkeypatch.setattr(kafka_quorum, "has_option", lambda *_: True)
    settings = []
    for quorum in (
        KafkaQuorum("4.3.1", properties="broker.session.timeout.ms=6000"),
        KcoreQuorum(properties="broker.session.timeout.ms=6000"),
    ):
        with quorum:
            [node] = quorum.nodes
            settings.append(node.configuration.read_text().replace(str(quorum.folder), "").replace(str(node.port), ""))
    assert settings[0] == settings[1] and "broker.session.timeout.ms=6000" in settings[0]


def test_a_kafka_whose_tool_cannot_format_a_dynamic_quorum_gets_a_static_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "new.jar", "w") as jar:
        jar.writestr("kafka/tools/StorageTool.class", "--initial-controllers")
    (tmp_path / "old").mkdir()
    commands, lines = [], []
    for jars in (tmp_path, tmp_path / "old"):
        quorum = KafkaQuorum(jars, controllers=3, java=tmp_path / "java")
        commands.append(" ".join(quorum.format_command(tmp_path / "node.properties", "VOTERS")))
        lines.append([line.partition("=")[0] for line in quorum.quorum_lines("CONTROLLER://h:1")])
        ports = [node.port for node in quorum.nodes]
        voters = ",".join(f"{FIRST_NODE_ID + at}@127.0.0.1:{port}" for at, port in enumerate(ports))
        quorum.close()
    assert ["--initial-controllers VOTERS" in command for command in commands] == [True, False]
    assert lines[0] == ["controller.quorum.bootstrap.servers", "listeners", "advertised.listeners"]
    assert quorum.quorum_lines("L")[0] == f"controller.quorum.voters={voters}" and len(lines[1]) == 2


def test_every_property_that_a_quorum_sets_is_refused_from_the_user(tmp_path: Path) -> None:
    for quorum in (KafkaQuorum(tmp_path, java=tmp_path / "java"), KcoreQuorum()):
        [node] = quorum.nodes
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quorum, "format_command", lambda *_: ["true"])
            quorum._configure(node)
        names = {line.partition("=")[0] for line in node.configuration.read_text().split()}
        quorum.close()
        assert names <= TOOL_PROPERTIES
