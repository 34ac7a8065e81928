"""The server's side of SASL, frame by frame, as SaslServerAuthenticator and the mechanisms of Kafka 4.3.1 behave."""

from functools import cache
from random import Random
from typing import Any

import pytest
from scramp import ScramClient
from scramp.core import Nonce

from kcore import schema as s
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.security.client_security import Sasl
from kcore.net.security.sasl_client import Exchange
from kcore.net.security.sasl_mechanisms import MOST_SCRAM_BYTES, PlainUsers, Token, TokenCredentials
from kcore.net.security.sasl_server import TRANSITIONS, SaslListener, SaslServer, State, Step
from kcore.protocol_errors import Errors
from kcore.schema.structure import Message
from kcore.scram import ScramCredential, scram_credential
from kcore.wire.codec import decode_from
from net.loops import request_frame
from net.token_client import TokenClient

ALICE, PASSWORD = "al=ice,", "geheim, wirklich=ja"
TOKEN_ID, HMAC, EXPIRES_MS = "a-token", bytes(range(64)), 1_000_000
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism"
TEXTS = "Invalid SASL/PLAIN response: expected 3 tokens, got"
ANOTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"
NOW_MS = 900_000


@cache
def made(mechanism: str, iterations: int) -> ScramCredential:
    return scram_credential(mechanism, PASSWORD.encode(), b"salt of sixteen!", iterations)


class Users:
    """One user, and one token."""

    def __init__(self, iterations: int = 4096) -> None:
        self.iterations = iterations

    def secret(self) -> bytes | None:
        return None

    def scram(self, mechanism: str, username: str) -> ScramCredential | None:
        if username != ALICE:
            return None
        return made(mechanism, self.iterations)

    def token(self, token_id: str) -> Token | None:
        return Token(KafkaPrincipal("owner"), EXPIRES_MS, HMAC) if token_id == TOKEN_ID else None


def listener(*mechanisms: str, **others: Any) -> SaslListener:
    users = PlainUsers({ALICE: PASSWORD, "bob": "b"})
    known = mechanisms or ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    return SaslListener(known, lambda: NOW_MS, users, others.pop("credentials", Users()), **others)


class Talk:
    """A connection's authentication, and what its client sends."""

    def __init__(self, listener: SaslListener) -> None:
        self.server = SaslServer(listener, lambda: s.ApiVersionsResponse(finalized_features_epoch=7))
        self.now_s = 100.0

    def send(self, message: Message, version: int) -> tuple[Step, Any]:
        """The step, and the decoded answer."""
        return self.frame(request_frame(message, version, 1)[4:], message, version)

    def frame(self, frame: bytes, message: Message, version: int) -> tuple[Step, Any]:
        assert self.server.takes(frame, self.now_s)
        step = self.server.take(frame, self.now_s, NOW_MS)
        if step.answer is None:
            return step, None
        response = getattr(s, type(message).__name__.replace("Request", "Response"))
        data = b"".join(step.answer)[4:]
        _, at = decode_from(s.ResponseHeader, response.header_version(version), data)
        return step, decode_from(response, version, data, at)[0]

    def handshake(self, mechanism: str, version: int = 1) -> Any:
        step, answer = self.send(s.SaslHandshakeRequest(mechanism=mechanism), version)
        assert bool(step.failure) == bool(answer.error_code)
        return answer

    def token(self, token: bytes, version: int = 2) -> tuple[Step, Any]:
        return self.send(s.SaslAuthenticateRequest(auth_bytes=token), version)

    def exchange(self, sasl: Sasl) -> tuple[Step, Any]:
        """All tokens of a client; the last step and answer."""
        client = Exchange(sasl)
        token = client.next_token()
        while token is not None:
            step, answer = self.token(token)
            if step.failure:
                break
            token = client.next_token(answer.auth_bytes)
        return step, answer

    def login(self, sasl: Sasl) -> tuple[Step, Any]:
        assert self.handshake(sasl.mechanism).error_code == 0
        return self.exchange(sasl)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_knows_the_password_is_let_in(mechanism: str) -> None:
    talk = Talk(listener())
    step, answer = talk.login(Sasl(mechanism, ALICE, PASSWORD))
    assert (step.failure, answer.error_code, answer.session_lifetime_ms) == ("", 0, 0)
    assert talk.server.authenticated is not None
    assert talk.server.authenticated.principal == KafkaPrincipal(ALICE) and not talk.server.authenticated.is_token
    assert talk.server.lets_in(talk.now_s + 1e9) and not talk.server.takes(b"\0\x3f\0\0", talk.now_s)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(("username", "password"), [(ALICE, "wrong"), ("nobody", PASSWORD), ("bob", PASSWORD)])
def test_a_failed_authentication_has_kafkas_message(mechanism: str, username: str, password: str) -> None:
    talk = Talk(listener())
    step, answer = talk.login(Sasl(mechanism, username, password))
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED and step.is_delayed and step.failure
    message = "Authentication failed: Invalid username or password"
    assert answer.error_message == (message if mechanism == "PLAIN" else f"{INVALID} {mechanism}")
    assert talk.server.state is State.FAILED and talk.server.authenticated is None
    assert not talk.server.lets_in(talk.now_s)


def test_versions_may_be_asked_for_once_before_the_handshake() -> None:
    talk = Talk(listener())
    asked = s.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    _, answer = talk.send(asked, 4)
    assert (answer.error_code, answer.finalized_features_epoch) == (0, 7)
    assert talk.server.state is State.HANDSHAKE_REQUEST
    step, answer = talk.send(asked, 4)
    assert answer is None and step.failure and not step.is_delayed


def test_a_version_that_nobody_has_is_answered_and_another_may_follow() -> None:
    talk = Talk(listener())
    frame = request_frame(s.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4, 1)[4:]
    newest = frame[:2] + (99).to_bytes(2, "big") + frame[4:]
    _, answer = talk.frame(newest, s.ApiVersionsRequest(), 0)
    assert answer.error_code == Errors.UNSUPPORTED_VERSION
    _, answer = talk.send(s.ApiVersionsRequest(client_software_name="-", client_software_version="1"), 3)
    assert answer.error_code == Errors.INVALID_REQUEST
    assert talk.login(Sasl("PLAIN", ALICE, PASSWORD))[1].error_code == 0


def test_a_version_that_the_listener_does_not_serve_is_refused() -> None:
    """kcore has ApiVersions 5 (KIP-1242), but listeners of older releases answer up to version 4."""
    asked = s.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    frame = request_frame(asked, 5, 1)[4:]
    assert Talk(listener()).frame(frame, asked, 0)[1].error_code == Errors.UNSUPPORTED_VERSION
    talk = Talk(listener())
    talk.handshake("PLAIN")
    assert talk.frame(frame, asked, 5)[1] is None, "during the exchange it is not parsed"


def test_a_disabled_mechanism_is_refused_and_the_others_are_listed_as_by_kafka() -> None:
    """In the order of a HashSet of Java, in which the two of a bucket come as they were put."""
    for known, listed in ((("PLAIN",), ["PLAIN"]), ((), ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"])):
        talk = Talk(listener(*known))
        step, answer = talk.send(s.SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert (answer.error_code, answer.mechanisms) == (Errors.UNSUPPORTED_SASL_MECHANISM, listed)
        assert step.is_delayed and talk.server.state is State.FAILED


@pytest.mark.parametrize("message", [s.MetadataRequest(), s.SaslAuthenticateRequest(), s.VoteRequest()])
def test_nothing_else_comes_before_the_handshake(message: Message) -> None:
    talk = Talk(listener())
    step, answer = talk.send(message, message.versions.lowest)
    assert answer is None and step.failure and not step.is_delayed


def test_other_requests_during_the_exchange_are_illegal() -> None:
    for message, version in ((s.SaslHandshakeRequest(mechanism="PLAIN"), 1), (s.ApiVersionsRequest(), 2)):
        talk = Talk(listener())
        talk.handshake("PLAIN")
        step, answer = talk.send(message, version)
        assert answer.error_code == Errors.ILLEGAL_SASL_STATE and step.is_delayed
    talk = Talk(listener())
    talk.handshake("PLAIN")
    step, answer = talk.send(s.MetadataRequest(), 9)
    assert answer is None and step.is_delayed and "Metadata 9 during authentication" in step.failure


def test_after_handshake_0_the_tokens_are_bare() -> None:
    talk = Talk(listener())
    talk.handshake("SCRAM-SHA-256", version=0)
    client = Exchange(Sasl("SCRAM-SHA-256", ALICE, PASSWORD))
    token = client.next_token()
    while token is not None:
        step = talk.server.take(token, talk.now_s, NOW_MS)
        assert step.answer is not None and not step.failure
        token = client.next_token(b"".join(step.answer)[4:])
    assert talk.server.lets_in(talk.now_s)
    talk = Talk(listener())
    talk.handshake("PLAIN", version=0)
    step = talk.server.take(b"\0bob\0wrong", talk.now_s, NOW_MS)
    assert step.answer is None and step.is_delayed and step.failure


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("\0bob\0b", None),
        ("bob\0bob\0b", None),
        ("\0bob\0b\0", f"{TEXTS} 4"),
        ("\0bob\0b\0more\0", f"{TEXTS} 4"),
        ("alice\0bob\0b", ANOTHER_ID),
        ("\0bob", f"{TEXTS} 2"),
        ("bob", f"{TEXTS} 1"),
        ("", f"{TEXTS} 1"),
        ("\0\0b", "Authentication failed: username not specified"),
        ("\0bob\0", "Authentication failed: password not specified"),
        ("\0bob\0B", "Authentication failed: Invalid username or password"),
        ("\0nobody\0b", "Authentication failed: Invalid username or password"),
    ],
)
def test_tokens_of_plain(token: str, expected: str | None) -> None:
    talk = Talk(listener())
    talk.handshake("PLAIN")
    _, answer = talk.token(token.encode())
    assert (answer.error_code == 0, answer.error_message or None) == (expected is None, expected)


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n,,",
        "n,,n=bob",
        "y,,n=al=3Dice=2C,r=abc",  # Kafka knows no client that could bind its channel.
        "p=tls-unique,,n=al=3Dice=2C,r=abc",
        "n,,n=al=ice,r=abc",
        "n,,n=al=3Dice=2C,r=",
        "n,,n=al=3Dice=2C,r=a b",
        "n,,r=abc,n=al=3Dice=2C",
        "n,,n=\u00e9,r=abc",
        "n,a=bob,n=al=3Dice=2C,r=abc",
        "n,,n=al=3Dice=2C,r=abc,",
        "n,,n=al=3Dice=2C,r=abc,x",
        "n,,n=al=3Dice=2C,r=abc,tokenauth=true",
        "n,,n=al=3Dice=2C,r=" + "a" * MOST_SCRAM_BYTES,
    ],
    ids=lambda first: first[:40],
)
def test_first_messages_of_scram_that_are_refused(first: str) -> None:
    talk = Talk(listener())
    talk.handshake("SCRAM-SHA-256")
    step, answer = talk.token(first.encode())
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED and step.is_delayed
    assert not first or first not in step.failure


def test_first_messages_of_scram_with_more_in_them() -> None:
    for first in ("n,a=al=3Dice=2C,", "n,,m=x,", "n,,"):
        talk = Talk(listener())
        talk.handshake("SCRAM-SHA-256")
        _, answer = talk.token(f"{first}n=al=3Dice=2C,r=abc,x=y=z".encode())
        refused = first.startswith("n,a")  # Kafka compares it as it stands, escaped.
        assert (answer.error_code != 0) == refused
        assert refused or answer.auth_bytes.startswith(b"r=abc")


@pytest.mark.parametrize(
    "final",
    ["", "c=biws", "c=biws,r={nonce}", "c=biws,r={nonce},p=", "c=biws,r={nonce},p=AAAA", "c=biws,r=x,p={proof}"],
)
def test_final_messages_of_scram_that_are_refused(final: str) -> None:
    talk = Talk(listener())
    talk.handshake("SCRAM-SHA-256")
    client = ScramClient(["SCRAM-SHA-256"], ALICE, PASSWORD)
    _, answer = talk.token(client.get_client_first().encode())
    client.set_server_first(answer.auth_bytes.decode())
    right = dict(each.split("=", 1) for each in client.get_client_final().split(","))
    step, answer = talk.token(final.format(nonce=right["r"], proof=right["p"]).encode())
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED and step.is_delayed
    assert answer.auth_bytes == b"" and talk.server.authenticated is None


def test_a_nonce_is_the_one_of_this_exchange() -> None:
    """Though the proof is of what the client sent."""
    talk = Talk(listener())
    talk.handshake("SCRAM-SHA-256")
    client = ScramClient(["SCRAM-SHA-256"], ALICE, PASSWORD)
    _, answer = talk.token(client.get_client_first().encode())
    client.set_server_first(answer.auth_bytes.decode())
    client.nonce = Nonce(f"{client.nonce}x")
    step, answer = talk.token(client.get_client_final().encode())
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED and "nonce" in step.failure


def test_a_proof_is_good_for_one_exchange() -> None:
    """Replayed, it meets another nonce."""
    recorded: list[bytes] = []
    for replay in (False, True):
        talk = Talk(listener())
        talk.handshake("SCRAM-SHA-512")
        client = Exchange(Sasl("SCRAM-SHA-512", ALICE, PASSWORD))
        first = recorded[0] if replay else client.next_token()
        assert first is not None
        _, answer = talk.token(first)
        final = recorded[1] if replay else client.next_token(answer.auth_bytes)
        assert final is not None
        recorded += [first, final]
        _, answer = talk.token(final)
        assert (answer.error_code == 0) is not replay


def test_few_iterations_are_refused() -> None:
    talk = Talk(listener(credentials=Users(iterations=4095)))
    _, answer = talk.login(Sasl("SCRAM-SHA-256", ALICE, PASSWORD))
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED


def show_token(talk: Talk, token_id: str = TOKEN_ID, hmac: bytes = HMAC) -> Any:
    talk.handshake("SCRAM-SHA-256")
    client = TokenClient(token_id, hmac)
    step, answer = talk.token(client.first)
    return answer if step.failure else talk.token(client.final(answer.auth_bytes))[1]


def test_who_shows_a_delegation_token_is_its_owner_until_it_expires() -> None:
    talk = Talk(listener())
    answer = show_token(talk)
    assert (answer.error_code, answer.session_lifetime_ms) == (0, EXPIRES_MS - NOW_MS)
    assert talk.server.authenticated is not None and talk.server.authenticated.is_token
    assert talk.server.authenticated.principal == KafkaPrincipal("owner")
    assert talk.server.lets_in(talk.now_s + 100) and not talk.server.lets_in(talk.now_s + 100.1)


@pytest.mark.parametrize(("longest_ms", "told_ms"), [(5_000, 5_000), (10**9, EXPIRES_MS - NOW_MS)])
def test_a_session_of_a_token_ends_with_whatever_ends_first(longest_ms: int, told_ms: int) -> None:
    talk = Talk(listener(max_reauth_ms={"SCRAM-SHA-256": longest_ms}))
    assert show_token(talk).session_lifetime_ms == told_ms
    assert talk.server.lets_in(talk.now_s + told_ms / 1000) and not talk.server.lets_in(talk.now_s + told_ms / 1000 + 1)


def test_who_shows_a_password_behind_a_token_has_a_session_without_an_end() -> None:
    class OfAlice(Users):
        def token(self, token_id: str) -> Token | None:
            return Token(KafkaPrincipal(ALICE), EXPIRES_MS, HMAC)

    talk = Talk(listener(credentials=OfAlice()))
    show_token(talk)
    step, answer = talk.login(Sasl("SCRAM-SHA-256", ALICE, PASSWORD))
    assert (step.failure, answer.session_lifetime_ms) == ("", 0)
    assert talk.server.authenticated is not None and not talk.server.authenticated.is_token
    assert talk.server.lets_in(talk.now_s + 1e9)


def test_a_token_is_good_to_its_last_millisecond() -> None:
    talk = Talk(listener())
    talk.handshake("SCRAM-SHA-256")
    client = TokenClient(TOKEN_ID, HMAC)
    server_first = b""
    for place in range(2):
        token = client.final(server_first) if place else client.first
        frame = request_frame(s.SaslAuthenticateRequest(auth_bytes=token), 2, 1)[4:]
        step = talk.server.take(frame, talk.now_s, EXPIRES_MS + place)
        assert not step.failure and step.answer is not None
        data = b"".join(step.answer)[4:]
        _, at = decode_from(s.ResponseHeader, 1, data)
        answer, _ = decode_from(s.SaslAuthenticateResponse, 2, data, at)
        server_first = answer.auth_bytes
    assert answer.session_lifetime_ms == 0 and not talk.server.lets_in(talk.now_s + 0.001)


def test_what_is_kept_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TokenCredentials, "MOST", 2)
    made = TokenCredentials(bytes)
    tokens = [Token(KafkaPrincipal("owner"), EXPIRES_MS, bytes([number]) * 64) for number in range(3)]
    first, second, third = (made.credential("SCRAM-SHA-256", each) for each in tokens)
    assert (
        made.credential("SCRAM-SHA-256", tokens[1]) is second and made.credential("SCRAM-SHA-256", tokens[2]) is third
    )
    assert made.credential("SCRAM-SHA-256", tokens[0]) == first, "it is made again"
    assert made.credential("SCRAM-SHA-256", tokens[1]) is not second, "the oldest has gone"
    assert len(made._made) == 2


def test_tokens_that_are_refused() -> None:
    assert show_token(Talk(listener()), token_id="another").error_code == Errors.SASL_AUTHENTICATION_FAILED
    assert show_token(Talk(listener()), hmac=bytes(64)).error_code == Errors.SASL_AUTHENTICATION_FAILED
    late = Talk(listener())
    late.handshake("SCRAM-SHA-256")
    frame = request_frame(s.SaslAuthenticateRequest(auth_bytes=TokenClient(TOKEN_ID, HMAC).first), 2, 1)[4:]
    assert late.server.take(frame, late.now_s, EXPIRES_MS + 1).failure


# Sessions that end (KIP-368).


def test_a_session_ends_and_is_begun_anew() -> None:
    talk = Talk(listener(max_reauth_ms={"PLAIN": 5_000}))
    _, answer = talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    assert answer.session_lifetime_ms == 5_000
    heartbeat = b"\0\x3f\0\1"
    talk.now_s += 5
    assert not talk.server.takes(heartbeat, talk.now_s)
    assert talk.login(Sasl("PLAIN", ALICE, PASSWORD))[1].session_lifetime_ms == 5_000
    talk.now_s += 5.001
    assert talk.server.takes(heartbeat, talk.now_s)
    step = talk.server.take(heartbeat, talk.now_s, NOW_MS)
    assert "expired" in step.failure and step.answer is None and not step.is_delayed


def test_a_session_that_has_expired_may_be_begun_anew() -> None:
    talk = Talk(listener(max_reauth_ms={"PLAIN": 5_000}))
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    talk.now_s += 60
    assert talk.login(Sasl("PLAIN", ALICE, PASSWORD))[1].error_code == 0
    assert talk.server.lets_in(talk.now_s)


def test_nobody_may_become_another_one() -> None:
    talk = Talk(listener(max_reauth_ms={"PLAIN": 5_000}))
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    step, answer = talk.login(Sasl("PLAIN", "bob", "b"))
    assert answer.error_code == Errors.SASL_AUTHENTICATION_FAILED
    assert step.failure == "another principal during re-authentication"
    message = f"Cannot change principals during re-authentication from User.{ALICE}: User.bob"
    assert answer.error_message == message
    assert talk.server.authenticated is not None and talk.server.authenticated.principal == KafkaPrincipal(ALICE)


def test_nor_by_another_mechanism() -> None:
    talk = Talk(listener(max_reauth_ms={"PLAIN": 5_000, "SCRAM-SHA-256": 5_000}))
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    assert talk.handshake("SCRAM-SHA-256").error_code == 0
    step, answer = talk.token(b"n,,n=al=3Dice=2C,r=abc")
    assert answer is None and step.is_delayed
    assert step.failure == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_handshake_is_an_ordinary_request_where_sessions_do_not_end_and_twice_in_a_second() -> None:
    frame = request_frame(s.SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)[4:]
    talk = Talk(listener())
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    assert not talk.server.takes(frame, talk.now_s)
    talk = Talk(listener(max_reauth_ms={"PLAIN": 5_000}))
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    talk.login(Sasl("PLAIN", ALICE, PASSWORD))
    assert not talk.server.takes(frame, talk.now_s + 0.9)
    assert talk.server.takes(frame, talk.now_s + 1)


# Hostile bytes, and secrets.


def test_whatever_comes_the_machine_says_what_follows() -> None:
    """Random frames, and right ones with a byte changed, cut or repeated: a step, and nobody is let in."""
    dice = Random(18)
    asked = s.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    frames = [
        request_frame(message, version, 1)[4:]
        for message, version in (
            *((asked, each) for each in range(5)),
            *((s.SaslHandshakeRequest(mechanism="PLAIN"), each) for each in range(2)),
            *((s.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), each) for each in range(2)),
            *((s.SaslAuthenticateRequest(auth_bytes=b"n,,n=al=3Dice=2C,r=abc"), each) for each in range(3)),
            *((s.SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abc,p=AAAA"), each) for each in range(3)),
            (s.MetadataRequest(), 9),
        )
    ]
    for _ in range(3_000):
        talk = Talk(listener(max_reauth_ms={"PLAIN": 1}))
        for _ in range(6):
            frame = bytearray(dice.choice(frames))
            for _ in range(dice.choice((0, 0, 0, 1, 3))):
                frame[dice.randrange(len(frame))] = dice.randrange(256)
            sent = bytes(frame[: dice.choice((len(frame), len(frame), dice.randrange(len(frame) + 1)))])
            if talk.server.state is State.FAILED:
                break
            step = talk.server.take(sent, talk.now_s, NOW_MS)
            assert isinstance(step, Step) and (step.failure or step.answer)
        assert talk.server.authenticated is None


def test_a_state_leads_where_the_table_says() -> None:
    assert {*TRANSITIONS} == {*State}
    talk = Talk(listener())
    with pytest.raises(AssertionError, match="COMPLETE"):
        talk.server._go(State.COMPLETE)


def test_no_secret_is_shown() -> None:
    """By what might be logged: the parts of a listener, what they find, and why somebody is refused."""
    whole = listener()
    talk = Talk(whole)
    step, answer = talk.login(Sasl("PLAIN", "bob", PASSWORD))
    credential, token = Users().scram("SCRAM-SHA-256", ALICE), Users().token(TOKEN_ID)
    assert credential is not None
    shown = f"{whole} {step} {answer} {credential} {token} {talk.server.__dict__} {whole.users}"
    secret = (PASSWORD, repr(HMAC), repr(credential.stored_key), repr(credential.server_key), repr(credential.salt))
    assert not [each for each in secret if each in shown]
