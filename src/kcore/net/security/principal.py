"""The principal of a client with a TLS certificate: its subject as a distinguished name (RFC 2253).

Source: KafkaPrincipal and DefaultKafkaPrincipalBuilder of 4.3.1, without mapping rules.
"""

from collections.abc import Mapping
from typing import Any, Final

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal

# The keywords of X500Principal.getName. It writes other attributes as their OID, with the value in DER. Here only
# emailAddress is written so: for the others OpenSSL does not say how the value was encoded.
_KEYWORDS: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_EMAIL: Final = "1.2.840.113549.1.9.1"
_IA5_STRING: Final = 0x16


def principal_of_certificate(certificate: Mapping[str, Any] | None) -> KafkaPrincipal:
    """The principal of a verified certificate from `ssl.SSLSocket.getpeercert`; ANONYMOUS without a certificate."""
    if not certificate:
        return ANONYMOUS
    subject = certificate.get("subject", ())
    return KafkaPrincipal(",".join("+".join(_attribute(*each) for each in names) for names in reversed(subject)))


def _attribute(kind: str, value: str) -> str:
    if kind == "emailAddress":
        return f"{_EMAIL}=#{_der(value).hex()}"
    return f"{_KEYWORDS.get(kind, kind)}={_escaped(value)}"


def _der(value: str) -> bytes:
    """The DER encoding of an IA5String: type, length, value. A length above 127 begins with its number of bytes."""
    data = value.encode()
    count = (len(data).bit_length() + 7) // 8
    length = bytes([len(data)]) if len(data) < 0x80 else bytes([0x80 | count]) + len(data).to_bytes(count, "big")
    return bytes([_IA5_STRING]) + length + data


def _escaped(value: str) -> str:
    """A backslash before each special character and each leading or trailing space, as Java's AVA.toRFC2253String."""
    middle = "".join(f"\\{each}" if each in ',=+<>#;"\\' else each for each in value.strip(" "))
    before = len(value) - len(value.lstrip(" "))
    after = len(value.strip(" ")) and len(value) - len(value.rstrip(" "))
    return "\\ " * before + middle + "\\ " * after
