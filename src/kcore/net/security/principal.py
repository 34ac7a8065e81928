"""The identity of a client: Kafka's principals, and the name that the subject of a certificate makes (RFC 2253).

Source: KafkaPrincipal and DefaultKafkaPrincipalBuilder of 4.3.1, without mapping rules.
"""

from collections.abc import Mapping
from typing import Any, Final

from kcore.metadata.principal import ANONYMOUS, KafkaPrincipal

# X500Principal.getName knows these. Others it names by their OID, with the value in DER; of them only emailAddress is
# so named here, as OpenSSL's name for the rest does not tell how the value was encoded.
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
    """The value as an IA5String; its length takes one byte, or one that counts the bytes that follow."""
    data = value.encode()
    count = (len(data).bit_length() + 7) // 8
    length = bytes([len(data)]) if len(data) < 0x80 else bytes([0x80 | count]) + len(data).to_bytes(count, "big")
    return bytes([_IA5_STRING]) + length + data


def _escaped(value: str) -> str:
    """As Java's AVA.toRFC2253String: each special character, and each space at an end, after a backslash."""
    middle = "".join(f"\\{each}" if each in ',=+<>#;"\\' else each for each in value.strip(" "))
    before = len(value) - len(value.lstrip(" "))
    after = len(value.strip(" ")) and len(value) - len(value.rstrip(" "))
    return "\\ " * before + middle + "\\ " * after
