"""The audit log: who asked what, and what came of it; never a secret."""

import json
from pathlib import Path

import pytest

from kcore import schema as s
from kcore.controller.zk.config import ControllerConfig
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.connect import connect
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from kcore.schema.topics import CreatableTopic
from kcore.server.audit import AuditLog
from kcore.server.controller import process
from kcore.server.controller.process import ControllerServer
from net.loops import story, until
from server.zookeepers import Client, Zookeeper, elect, take_over


def test_a_line_has_no_secret_and_one_line_is_one_request(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit")
    upsertion = ScramCredentialUpsertion(name="u", mechanism=1, salt=b"SALT", salted_password=b"SECRET")
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion] * 3, deletions=[])
    response = AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(error_code=code, error_message="SECRET") for code in (0, 0, 91)]
    )
    forger = KafkaPrincipal('mallory"}\n{"principal": "User:root')
    audit.write(1_500, forger, "::1", request, response, through=KafkaPrincipal("broker"))
    audit.write(1_500, forger, "::1", request, None)
    audit.close()
    text = (tmp_path / "audit").read_text()
    assert "SECRET" not in text and "SALT" not in text
    first, second = map(json.loads, text.splitlines())
    assert first == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "principal": str(forger),
        "address": "::1",
        "through": "User:broker",
        "request": "AlterUserScramCredentials",
        "items": 3,
        "outcome": {"NONE": 2, "RESOURCE_NOT_FOUND": 1},
    }
    assert second["outcome"] == "no response"


@story
async def test_a_controller_tells_of_what_it_was_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, stand_in in {"ZookeeperClient": Client, "elect": elect, "take_over": take_over}.items():
        monkeypatch.setattr(process, name, stand_in)
    audit = AuditLog(tmp_path / "audit")
    server = ControllerServer(ControllerConfig(1000), Zookeeper(), audit=audit)  # type: ignore[arg-type]
    async with server:
        await until(lambda: server.active.is_active)
        async with await connect("127.0.0.1", server.port) as connection:
            await connection.send(s.MetadataRequest(topics=None), 12)
            topic = CreatableTopic(name="bad name", num_partitions=1, replication_factor=1)
            await connection.send(s.CreateTopicsRequest(topics=[topic], timeout_ms=1), 7)
    audit.close()
    [line] = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    said = line["principal"], line["address"], line["request"], line["items"], line["outcome"]
    assert said == ("User:ANONYMOUS", "127.0.0.1", "CreateTopics", 1, {"INVALID_REPLICATION_FACTOR": 1})
