"""sasl.jaas.config, read as Kafka's JaasConfig reads it, and never shown."""

import pytest

from kcore.net.security.jaas import MODULES, JaasError, login_of

PLAIN, SCRAM = MODULES["PLAIN"], MODULES["SCRAM-SHA-512"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="a" password="b"', {"username": "a", "password": "b"}),
        ("username=a password=b", {"username": "a", "password": "b"}),
        ("username = 'a' password\n=\t'b'", {"username": "a", "password": "b"}),
        (r'password="a\"b\\c\101\n;="', {"password": 'a"b\\cA\n;='}),
        ('password="it\'s"', {"password": "it's"}),
        ('password="two\\\nlines"', {"password": "two\nlines"}),
        ("// a comment\nusername=a /* and\nanother */ password=b", {"username": "a", "password": "b"}),
        ('password=""', {"password": ""}),
        ('username=a username="b"', {"username": "b"}),
        ("", {}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    assert login_of(f"{PLAIN} required {options};", "PLAIN").options == expected


def test_the_users_of_plain_and_the_servers_own_name() -> None:
    login = login_of(f'{PLAIN} Required user_alice="a" user_bob="b" username="me" password="mine";', "PLAIN")
    assert login.own == ("me", "mine")
    assert len(login.users) == 2 and login.users.has("alice", "a") and login.users.has("bob", "b")
    assert not login.users.has("alice", "b") and not login.users.has("carol", "") and not login.users.has("me", "mine")
    assert login_of(f"{SCRAM} required;", "SCRAM-SHA-512").own is None
    assert login_of(f"{SCRAM} required username=a;", "SCRAM-SHA-512").own is None
    assert login_of(f"{SCRAM} required password=a;", "SCRAM-SHA-512").own is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "give a login module"),
        (PLAIN, "give a login module"),
        (f"{SCRAM} required;", f"the login module of PLAIN is {PLAIN}"),
        (f"{PLAIN} perhaps swordfish=1;", "is one of required"),
        (f'{PLAIN} required password="swordfish"', "`;` is missing"),
        (f'{PLAIN} required password="swordfish;', "a quote has no end"),
        (f"{PLAIN} required swordfish;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required swordfish=;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required swordfish=1 2;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required =swordfish;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required = = swordfish;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required password swordfish a;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required password == swordfish;", "an option is not NAME=VALUE"),
        (f"{PLAIN} required password=swordfish; {PLAIN} required;", "more than one login module"),
        ("; required swordfish", "give a login module"),
    ],
)
def test_what_cannot_be_read_is_one_line_without_what_was_given(text: str, expected: str) -> None:
    with pytest.raises(JaasError) as raised:
        login_of(text, "PLAIN")
    assert expected in str(raised.value) and "\n" not in str(raised.value) and "swordfish" not in str(raised.value)


def test_a_login_shows_no_option() -> None:
    login = login_of(f'{PLAIN} required user_swordfish="a" password="swordfish";', "PLAIN")
    assert "swordfish" not in f"{login} {login.users}"
