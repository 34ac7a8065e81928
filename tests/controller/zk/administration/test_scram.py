"""SCRAM credentials of users, as ZkAdminManager keeps them: altered, described, refused."""

import base64
import hashlib
import hmac
from typing import Any

import pytest

import kcore
from controller.zk import admin
from controller.zk.admin import small
from controller.zk.tree import Cluster
from kcore.metadata.zookeeper import znodes
from kcore.metadata.zookeeper.znode_names import sanitized
from kcore.metadata.zookeeper.znode_operations import WriteNodes
from kcore.node.zk.admin import scram
from kcore.protocol_errors import Errors
from kcore.schema.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

SHA_256, SHA_512 = 1, 2


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "secret", salt: bytes = b"salt"
) -> ScramCredentialUpsertion:
    digest = {SHA_512: "sha512"}.get(mechanism, "sha256")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, 10)  # As many rounds as a test has time for.
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def alter(cluster: Cluster, *changes: Any) -> dict[str, tuple[Errors, str | None]]:
    request = AlterUserScramCredentialsRequest(
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
    )
    response = admin.ask(cluster, request)
    decoded = kcore.decode("AlterUserScramCredentialsResponse", 0, kcore.encode(response, 0))
    return {each.user: (Errors(each.error_code), each.error_message) for each in decoded.results}


def describe(cluster: Cluster, *users: str) -> dict[str, Any]:
    """Iterations by mechanism, or the error, by user."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in users] or None)
    response = admin.ask(cluster, request)
    decoded = kcore.decode("DescribeUserScramCredentialsResponse", 0, kcore.encode(response, 0))
    return {
        each.user: Errors(each.error_code)
        if each.error_code
        else {info.mechanism: info.iterations for info in each.credential_infos}
        for each in decoded.results
    }


def stored(cluster: Cluster, path: str) -> dict[str, str]:
    return znodes.decode_config(path, cluster.tree.nodes[path].data)


def test_many_users_are_changed_and_described_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "USERS_AT_ONCE", 5)
    cluster, users = small(), [f"u{number:02}" for number in range(20)]
    cluster.effects.clear()
    changes = [upsertion(user) for user in users]
    assert alter(cluster, *changes) == dict.fromkeys(users, (Errors.NONE, None))
    writes = [each for each in cluster.effects if isinstance(each, WriteNodes)]
    assert [len(each.operations) for each in writes] == [2 * 5] * 4, "each user's settings and a notification"
    assert cluster.pauses == 4 + 4, "checked, and answered"
    described = {user: {SHA_256: 4096} for user in users}
    assert describe(cluster, *users, "", "") == {**described, "": Errors.RESOURCE_NOT_FOUND}
    assert describe(cluster) == described
    assert cluster.pauses == 8 + 4 + 4
    assert {*alter(cluster, *changes, *changes).values()} == {scram.TWICE}
    assert cluster.pauses == 16 + 8 + 4


def test_a_credential_is_written_as_kafka_does_with_a_notification() -> None:
    cluster = small([1])
    assert alter(cluster, upsertion("al ice", iterations=8192)) == {"al ice": (Errors.NONE, None)}
    parts = dict(each.split("=", 1) for each in stored(cluster, "/config/users/al%20ice")["SCRAM-SHA-256"].split(","))
    assert [*parts] == ["salt", "stored_key", "server_key", "iterations"]
    salted = upsertion("al ice").salted_password
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    assert base64.b64decode(parts["salt"]) == b"salt" and base64.b64decode(parts["stored_key"]) == stored_key
    assert base64.b64decode(parts["server_key"]) == hmac.digest(salted, b"Server Key", "sha256")
    assert parts["iterations"] == "8192"
    [note] = cluster.tree.children["/config/changes"]
    assert cluster.tree.nodes[f"/config/changes/{note}"].data == b'{"version":2,"entity_path":"users/al%20ice"}'
    assert describe(cluster) == {"al ice": {SHA_256: 8192}}


def test_quotas_and_other_mechanisms_of_the_user_stay() -> None:
    cluster = small([1])
    path = "/config/users/a"
    cluster.tree.create(path, znodes.encode_config({"producer_byte_rate": "5"}))
    assert describe(cluster) == {}, "quotas are no credentials"
    alter(cluster, upsertion("a"), upsertion("a", SHA_512, 5000))
    assert {*stored(cluster, path)} == {"producer_byte_rate", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert describe(cluster, "a") == {"a": {SHA_256: 4096, SHA_512: 5000}}
    deletion = ScramCredentialDeletion(name="a", mechanism=SHA_256)
    assert alter(cluster, deletion, upsertion("b")) == {"a": (Errors.NONE, None), "b": (Errors.NONE, None)}
    assert {*stored(cluster, path)} == {"producer_byte_rate", "SCRAM-SHA-512"}
    assert describe(cluster) == {"a": {SHA_512: 5000}, "b": {SHA_256: 4096}}


@pytest.mark.parametrize(
    ("changes", "user", "expected"),
    [
        ([upsertion("")], "", (Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")),
        ([upsertion("..")], "..", (Errors.UNACCEPTABLE_CREDENTIAL, "No znode can be named '..'")),
        ([upsertion("u", 9)], "u", (Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        ([upsertion("u", iterations=4095)], "u", (Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations")),
        ([upsertion("u", iterations=16385)], "u", (Errors.UNACCEPTABLE_CREDENTIAL, "Too many iterations")),
        (
            [upsertion("u", salt=b"s" * 1025)],
            "u",
            (Errors.UNACCEPTABLE_CREDENTIAL, "A salt or salted password must not have more than 1024 bytes"),
        ),
        (
            [upsertion("u"), upsertion("u", iterations=5000)],
            "u",
            (Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"),
        ),
        (
            [upsertion("u"), ScramCredentialDeletion(name="u", mechanism=SHA_256)],
            "u",
            (Errors.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"),
        ),
        (
            [upsertion("u"), ScramCredentialDeletion(name="u", mechanism=SHA_512)],
            "u",
            (Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
        ),
        (
            [ScramCredentialDeletion(name="u", mechanism=0)],
            "u",
            (Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ),
    ],
)
def test_what_is_refused_costs_nobody_else(changes: list[Any], user: str, expected: tuple[Errors, str]) -> None:
    cluster = small([1])
    assert alter(cluster, *changes, upsertion("good")) == {user: expected, "good": (Errors.NONE, None)}
    assert cluster.tree.children["/config/users"] == {"good"}


def test_the_limits_themselves_are_fine() -> None:
    cluster = small([1])
    assert alter(cluster, upsertion("a", iterations=16384, salt=b"s" * 1024)) == {"a": (Errors.NONE, None)}
    long = ScramCredentialUpsertion(name="b", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p" * 1024)
    assert alter(cluster, long) == {"b": (Errors.NONE, None)}
    long.salted_password += b"p"
    assert alter(cluster, long)["b"][0] is Errors.UNACCEPTABLE_CREDENTIAL


def test_the_errors_of_users_that_are_not_described() -> None:
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in ("none", "twice", "twice")])
    response = admin.ask(small([1]), request)
    assert [(each.user, each.error_message, each.credential_infos) for each in response.results] == [
        ("none", "Attempt to describe a user credential that does not exist: none", []),
        ("twice", "Cannot describe SCRAM credentials for the same user twice in a single request: twice", []),
    ]


@pytest.mark.parametrize("iterations", ["", "-1", "four", "4096.5", "\u0664", "9" * 10])
def test_iterations_that_are_no_number_are_no_credential(iterations: str) -> None:
    cluster = small([1])
    alter(cluster, upsertion("good"))
    text = f"salt=AAAA,stored_key=AAAA,server_key=AAAA,iterations={iterations}"
    cluster.tree.create("/config/users/bad", znodes.encode_config({"SCRAM-SHA-256": text}))
    assert describe(cluster) == {"good": {SHA_256: 4096}}


def test_users_that_are_described_wrongly() -> None:
    cluster = small([1])
    alter(cluster, upsertion("a"))
    assert describe(cluster, "a", "nobody", "twice", "twice", "", "..") == {
        "a": {SHA_256: 4096},
        "nobody": Errors.RESOURCE_NOT_FOUND,
        "twice": Errors.DUPLICATE_RESOURCE,
        "": Errors.RESOURCE_NOT_FOUND,
        "..": Errors.RESOURCE_NOT_FOUND,
    }
    cluster.tree.create("/config/users/b", znodes.encode_config({"SCRAM-SHA-256": "nonsense"}))
    cluster.tree.create("/config/users/c", b"no JSON")
    cluster.tree.create("/config/users/%2E", znodes.encode_config({}))
    assert describe(cluster) == {"a": {SHA_256: 4096}}


def test_a_quota_that_another_node_writes_meanwhile_stays() -> None:
    """Quotas and credentials are in the same znode: the node reads it again, and alters it again."""
    cluster = small([1])

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.before = lambda _: None
            cluster.tree.create("/config/users/a", znodes.encode_config({"producer_byte_rate": "5"}))

    cluster.before = before
    assert alter(cluster, upsertion("a"))["a"][0] is Errors.NONE
    found = stored(cluster, "/config/users/a")
    assert found.pop("producer_byte_rate") == "5" and [*found] == ["SCRAM-SHA-256"]


def test_a_credential_that_could_not_be_written_is_no_success() -> None:
    cluster, rates = small([1]), iter(range(100))
    cluster.tree.create("/config/users/a", znodes.encode_config({}))

    def before(effect: object) -> None:
        if isinstance(effect, WriteNodes):
            cluster.tree.set_data("/config/users/a", znodes.encode_config({"producer_byte_rate": str(next(rates))}))

    cluster.before = before
    assert alter(cluster, upsertion("a"), upsertion("b")) == {
        "a": (Errors.UNKNOWN_SERVER_ERROR, "Not written: the znode has another version"),
        "b": (Errors.NONE, None),
    }
    assert stored(cluster, "/config/users/a") == {"producer_byte_rate": "9"}


def test_who_is_no_controller_says_so_of_every_user() -> None:
    cluster = Cluster()
    request = AlterUserScramCredentialsRequest(
        upsertions=[upsertion("a")], deletions=[ScramCredentialDeletion(name="b", mechanism=1)]
    )
    response = admin.ask(cluster, request)
    assert [(each.user, each.error_code) for each in response.results] == [
        ("a", Errors.NOT_CONTROLLER),
        ("b", Errors.NOT_CONTROLLER),
    ]
    everybody = DescribeUserScramCredentialsRequest(users=None)
    assert admin.ask(cluster, everybody).error_code == Errors.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("name", "expected"), [("a b*~+", "a%20b%2A%7E%2B"), ("é", "%C3%A9"), ("a-b_c.d/e", "a-b_c.d%2Fe")]
)
def test_names_become_znodes_as_java_encodes_urls(name: str, expected: str) -> None:
    assert sanitized(name) == expected
