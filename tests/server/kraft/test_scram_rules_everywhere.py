"""All ways to create SCRAM users and credentials apply the same validation rule."""

import re
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from controller.kraft.admin import test_admin_scram as kraft
from controller.kraft.contexts import a_context
from controller.zk.admin import small
from controller.zk.administration import test_scram as zookeeper
from kcore.cli.options.scram_option import scram_records
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.metadata_version import MetadataVersion
from kcore.schema.metadata_records_security import UserScramCredentialRecord
from kcore.schema.scram import ScramCredentialUpsertion
from kcore.scram import keys_of
from kcore.server.security.log_credentials import LogCredentials
from kcore.server.zk_node.credentials import ZkCredentials, credential_in
from kcore.zookeeper.client import ZookeeperClient


class Given(NamedTuple):
    name: str = "alice"
    mechanism: int = 1
    iterations: int = 4096
    salt: bytes = b"salt"
    salted_password: bytes = b"swordfish"


def by_kraft(given: Given) -> str | None:
    [result] = kraft.altered(a_context(), ScramCredentialUpsertion(**given._asdict())).response.results
    return result.error_message


def by_zookeeper(given: Given) -> str | None:
    [(_, message)] = zookeeper.alter(small(), ScramCredentialUpsertion(**given._asdict())).values()
    return message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(), None),
        (Given(iterations=16384), None),
        (Given(salt=b""), None),
        (Given(salt=bytes(1024), salted_password=bytes(1024)), None),
        (Given(name=""), "Username must not be empty"),
        (Given(mechanism=3), "Unknown SCRAM mechanism"),
        (Given(mechanism=0), "Unknown SCRAM mechanism"),
        (Given(iterations=4095), "Too few iterations"),
        (Given(iterations=16385), "Too many iterations"),
        (Given(salted_password=b""), "Salted password must not be empty"),
        (Given(salt=bytes(1025)), "A salt or salted password must not have more than 1024 bytes"),
        (Given(salted_password=bytes(1025)), "A salt or salted password must not have more than 1024 bytes"),
    ],
)
def test_both_modes_and_the_format_refuse_the_same(
    given: Given, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert by_kraft(given) == by_zookeeper(given) == said
    salt, salted = (b64encode(each).decode() for each in (given.salt, given.salted_password))
    names = {1: "SCRAM-SHA-256"}
    text = f"name={given.name},salt={salt},iterations={given.iterations},saltedpassword={salted}"
    option = f"{names.get(given.mechanism, 'SCRAM-SHA-1')}=[{text}]"
    version = MetadataVersion.parse("4.3.1")
    if said is None:
        [record] = scram_records([option], version)
        assert (record.stored_key, record.server_key) == keys_of("SCRAM-SHA-256", given.salted_password)
        return
    with pytest.raises(typer.Exit):
        scram_records([option], version)
    line = capsys.readouterr().err
    assert line.startswith("kcore: --add-scram: ") and salted not in line.split()
    if "iterations" not in said and "mechanism" not in said:
        assert said in line


@pytest.mark.parametrize("password", ["", '""'])
def test_the_format_takes_no_empty_password(password: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        scram_records([f"SCRAM-SHA-512=[name=alice,password={password}]"], MetadataVersion.parse("4.3.1"))
    assert capsys.readouterr().err == "kcore: --add-scram: password must not be empty\n"


def test_the_format_reads_a_user_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's tool reads arguments from @FILE, and other users of the machine cannot read the password."""
    file, version = tmp_path / "user", MetadataVersion.parse("4.3.1")
    file.write_text("SCRAM-SHA-512=[name=alice,password=geheim]\n")
    [record] = scram_records([f"@{file}"], version)
    assert record.name == "alice"
    for wrong in (tmp_path / "gone", tmp_path):
        with pytest.raises(typer.Exit):
            scram_records([f"@{wrong}"], version)
        assert capsys.readouterr().err.startswith(f"kcore: --add-scram @{wrong}: ")


def test_the_format_makes_a_salt_as_kafkas_tools_do() -> None:
    """A client could tell users of another form from unknown users."""
    given = ["SCRAM-SHA-256=[name=alice,password=b]", "SCRAM-SHA-512=[name=bob,password=b]"]
    salts = {record.salt for record in scram_records(given, MetadataVersion.parse("4.3.1"))}
    assert len(salts) == 2 and all(re.fullmatch(rb"[0-9a-z]{20,26}", each) for each in salts)


KEYS = keys_of("SCRAM-SHA-256", b"swordfish")


def in_the_log(stored_key: bytes, server_key: bytes, iterations: int) -> bool:
    image = ClusterImage()
    keys = {"stored_key": stored_key, "server_key": server_key}
    image.apply(UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", iterations=iterations, **keys))
    credentials = LogCredentials(lambda: image, None, lambda: True)
    return credentials.scram("SCRAM-SHA-256", "alice") is not None


def in_a_znode(stored_key: bytes, server_key: bytes, iterations: int) -> bool:
    stored, server = (b64encode(each).decode() for each in (stored_key, server_key))
    text = f"salt=AAAA,stored_key={stored},server_key={server},iterations={iterations}"
    return credential_in(text, "SCRAM-SHA-256") is not None


def test_nodes_of_both_modes_make_the_salt_of_an_unknown_user_from_the_clusters_secret() -> None:
    keys = ("one", "one", "other", None)
    secrets = [LogCredentials(ClusterImage, key, lambda: True).secret() for key in keys]
    assert secrets == [ZkCredentials(ZookeeperClient("nowhere:1"), key).secret() for key in keys]
    assert secrets[0] == secrets[1] != secrets[2] and secrets[0] is not None and secrets[3] is None


@pytest.mark.parametrize("way", [in_the_log, in_a_znode])
def test_a_credential_that_nobody_could_use_lets_nobody_in(way: Callable[[bytes, bytes, int], bool]) -> None:
    assert way(*KEYS, 4096) and way(*KEYS, 20_000)
    assert not way(b"", KEYS[1], 4096) and not way(KEYS[0], b"", 4096)
    assert not way(*KEYS, 4095) and not way(KEYS[0][1:], KEYS[1], 4096)
