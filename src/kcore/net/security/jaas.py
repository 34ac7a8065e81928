"""Parses sasl.jaas.config: a login module, a flag and options, in the syntax of Java's login configuration files.

Source: JaasConfig, JaasContext of 4.3.1. No error quotes the text, as it has passwords.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from kcore.errors import KcoreError
from kcore.net.security.sasl_mechanisms import PLAIN, PlainUsers

MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_USER: Final = "user_"
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_TOKEN: Final = re.compile(
    r"""[\x00-\x20]+|/\*.*?\*/|/[^\n]*"""  # Space and comments.
    r"""|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
    r"""|(?P<mark>[;=])|(?P<word>[^\x00-\x20;=/"']+)""",
    re.DOTALL,
)


class JaasError(KcoreError, ValueError):
    """An invalid login configuration; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Login:
    """The options of a mechanism's login module."""

    options: dict[str, str] = field(repr=False)

    @property
    def users(self) -> PlainUsers:
        """The users that may authenticate to the server with PLAIN, with their passwords."""
        names = [each for each in self.options if each.startswith(_USER)]
        return PlainUsers({name.removeprefix(_USER): self.options[name] for name in names})

    @property
    def own(self) -> tuple[str, str] | None:
        """The user and the password with which the process itself connects to other servers; None without these."""
        username, password = self.options.get("username"), self.options.get("password")
        return None if username is None or password is None else (username, password)


def login_of(text: str, mechanism: str) -> Login:
    """Parses the configuration of `mechanism`, which must have one login module; raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0][0] == "mark":
        raise JaasError("give a login module, `required`, options and `;`")
    (_, module), (_, flag) = tokens[:2]
    if module != MODULES[mechanism]:
        raise JaasError(f"the login module of {mechanism} is {MODULES[mechanism]}")
    if flag.lower() not in _FLAGS:
        raise JaasError(f"what follows the login module is one of {', '.join(_FLAGS)}")
    ends = [place for place, token in enumerate(tokens) if token == ("mark", ";")]
    if not ends:
        raise JaasError("`;` is missing at its end")
    if ends[0] != len(tokens) - 1:
        raise JaasError("it has more than one login module")
    options, rest = {}, tokens[2:-1]
    for place in range(0, len(rest), 3):
        name, equals, value = (*rest[place : place + 3], ("", ""), ("", ""))[:3]
        if equals != ("mark", "=") or name[0] == "mark" or value[0] in ("", "mark"):
            raise JaasError("an option is not NAME=VALUE")
        options[name[1]] = value[1]
    return Login(options)


def _tokens(text: str) -> list[tuple[str, str]]:
    """The kind and the text of each token; raises JaasError for a quote without an end."""
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JaasError("a quote has no end")
        at = found.end()
        if found.lastgroup in ("double", "single"):
            tokens.append(("quoted", _unescaped(found[found.lastgroup])))
        elif found.lastgroup is not None:
            tokens.append((found.lastgroup, found[found.lastgroup]))
    return tokens


def _unescaped(text: str) -> str:
    """A quoted text without escapes, as java.io.StreamTokenizer reads it."""

    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)

    return re.sub(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", character, text, flags=re.DOTALL)
