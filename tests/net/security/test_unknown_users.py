"""SCRAM of unknown users: an attacker learns no more than from a wrong password."""

import re

import pytest

from kcore.net.security.client_security import Sasl
from kcore.net.security.sasl_client import Exchange
from kcore.net.security.sasl_mechanisms import UnknownUsers
from kcore.net.security.sasl_server import SaslListener
from kcore.protocol_errors import Errors
from net.security.test_sasl_server import ALICE, INVALID, PASSWORD, Talk, Users, listener


def first_answer(server: SaslListener, mechanism: str, username: str) -> dict[str, str]:
    """The server's answer to a client's first message, without the client's nonce."""
    talk = Talk(server)
    talk.handshake(mechanism)
    step, answer = talk.token(Exchange(Sasl(mechanism, username, "x"), lambda: "abc").next_token())
    assert answer.error_code == Errors.NONE and not step.failure and not step.is_delayed
    fields = dict(each.split("=", 1) for each in answer.auth_bytes.decode().split(","))
    assert fields.pop("r").startswith("abc")
    return fields


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_an_unknown_user_is_answered_as_one_with_a_wrong_password(mechanism: str) -> None:
    """The same messages, errors and delay; its salt is its own, and the same again."""
    server, failures, salts = listener(), set(), dict[str, set[str]]()
    for username in (ALICE, "nobody", "bob"):
        for _ in range(2):
            found = first_answer(server, mechanism, username)
            assert found["i"] == "4096"
            salts.setdefault(username, set()).add(found["s"])
        step, answer = Talk(server).login(Sasl(mechanism, username, "wrong"))
        failures.add((answer.error_code, answer.error_message, step.is_delayed))
    assert failures == {(Errors.SASL_AUTHENTICATION_FAILED.value, f"{INVALID} {mechanism}", True)}
    assert [len(each) for each in salts.values()] == [1, 1, 1] and len(set.union(*salts.values())) == 3


def test_a_user_with_too_few_iterations_looks_unknown() -> None:
    server = listener(credentials=Users(iterations=100))
    assert first_answer(server, "SCRAM-SHA-256", ALICE)["i"] == "4096"
    step, answer = Talk(server).login(Sasl("SCRAM-SHA-256", ALICE, PASSWORD))
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED and "iterations" in step.failure


def test_all_nodes_that_share_a_secret_make_the_same_salt_of_an_unknown_user() -> None:
    one, other = UnknownUsers(), UnknownUsers()

    def salt(users: UnknownUsers, secret: bytes | None, mechanism: str = "SCRAM-SHA-256") -> bytes:
        return users.credential(mechanism, "nobody", secret).salt

    assert salt(one, b"shared") == salt(other, b"shared") != salt(one, b"other")
    assert salt(one, None) == salt(one, None) != salt(other, None)
    assert salt(one, b"shared", "SCRAM-SHA-512") != salt(one, b"shared")
    assert re.fullmatch(rb"[0-9a-z]{20,26}", salt(one, None)), "as ScramFormatter makes them"
