"""The client's side of SCRAM: RFC 7677's own example, what Kafka's client takes, and servers that do not know."""

from base64 import b64encode

import pytest

from kcore.errors import AuthenticationError
from kcore.metadata.principal import KafkaPrincipal
from kcore.net.security.client_security import Sasl
from kcore.net.security.sasl_client import FEW_ITERATIONS, MOST_ITERATIONS, Exchange, is_slow
from kcore.net.security.sasl_mechanisms import MOST_SCRAM_BYTES, NoCredentials, Scram, TokenCredentials, UnknownUsers
from kcore.scram import ScramCredential, scram_credential

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def begun(mechanism: str = "SCRAM-SHA-256", username: str = "user", password: str = "pencil") -> Exchange:
    exchange = Exchange(Sasl(mechanism, username, password), lambda: NONCE)
    assert exchange.next_token() == f"n,,n={username},r={NONCE}".encode()
    return exchange


def test_the_example_of_rfc_7677() -> None:
    exchange = begun()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert exchange.next_token(FIRST.encode()) == f"c=biws,r={NONCE}{SERVER_NONCE},p={proof}".encode()
    assert exchange.next_token(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


class OneUser(NoCredentials):
    """Returns the same SCRAM credential for every user name."""

    def __init__(self, credential: ScramCredential) -> None:
        self.credential = credential

    def secret(self) -> bytes | None:
        return None

    def scram(self, mechanism: str, username: str) -> ScramCredential:
        return self.credential


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("salt", [b"", b"1", b"of 11 bytes", bytes(1000)], ids=len)
@pytest.mark.parametrize("password", ["pencil", "Ⅸ, a ﬁne ª \u00ad", "pa ss\n"])
def test_a_salt_may_have_any_length_and_a_password_is_as_it_was_written(
    mechanism: str, salt: bytes, password: str
) -> None:
    credential = scram_credential(mechanism, password.encode(), salt, 4096)
    server = Scram(mechanism, OneUser(credential), TokenCredentials(bytes), lambda: SERVER_NONCE, UnknownUsers())
    exchange = begun(mechanism, password=password)
    final = exchange.next_token(server.evaluate(f"n,,n=user,r={NONCE}".encode(), 0))
    assert final is not None
    assert exchange.next_token(server.evaluate(final, 0)) is None
    assert server.authenticated is not None and server.authenticated.principal == KafkaPrincipal("user")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (FIRST.replace("i=4096", "i=4095"), "4095 iterations"),
        (FIRST.replace("i=4096", f"i={MOST_ITERATIONS + 1}"), f"{MOST_ITERATIONS + 1} iterations"),
        (FIRST.replace("i=4096", "i=" + "9" * 5000), "breaks the protocol"),
        (FIRST.replace(f"r={NONCE}", "r=another"), "nonce"),
        (FIRST.replace(SERVER_NONCE, ""), "nonce"),
        (FIRST.replace("gQ==", "gQ="), "breaks the protocol"),
        (f"m=mandatory,{FIRST}", "breaks the protocol"),
        ("", "breaks the protocol"),
    ],
)
def test_a_first_message_that_no_server_may_send(first: str, expected: str) -> None:
    with pytest.raises(AuthenticationError, match=f"^SASL SCRAM-SHA-256: .*{expected}"):
        begun().next_token(first.encode())


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        (b"e=invalid-proof", "the server answers invalid-proof"),
        (b"v=" + b64encode(bytes(32)), "does not know the password"),
        (b"v=", "does not know the password"),
        (b"", "breaks the protocol"),
        (b"\xff\xfe", "breaks the protocol"),
    ],
)
def test_a_server_that_does_not_prove_that_it_knows_the_password(final: bytes, expected: str) -> None:
    exchange = begun()
    exchange.next_token(FIRST.encode())
    with pytest.raises(AuthenticationError, match=f"^SASL SCRAM-SHA-256: .*{expected}"):
        exchange.next_token(final)


def test_every_exchange_has_a_nonce_of_its_own() -> None:
    sasl = Sasl("SCRAM-SHA-256", "user", "pencil")
    assert len({Exchange(sasl).next_token() for _ in range(100)}) == 100


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_that_is_no_text_is_refused_and_not_shown(mechanism: str) -> None:
    with pytest.raises(AuthenticationError, match="no text") as raised:
        Sasl(mechanism, "user", "secret\udcff")
    assert "secret" not in str(raised.value)


def test_answers_that_take_long_are_known_by_their_iterations_or_their_length() -> None:
    few, more = (FIRST.replace("i=4096", f"i={many}").encode() for many in (FEW_ITERATIONS, FEW_ITERATIONS + 1))
    assert [is_slow(each) for each in (few, more, b"", b"\xff" * MOST_SCRAM_BYTES)] == [False, True, False, False]
    assert is_slow(bytes(MOST_SCRAM_BYTES + 1))
