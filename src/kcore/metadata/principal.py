"""The principal of a request, as ACLs, delegation tokens and envelopes name it (KafkaPrincipal)."""

from typing import Final, NamedTuple


class KafkaPrincipal(NamedTuple):
    """A type, of which Kafka has one, and a name; as text `User:alice`."""

    name: str
    principal_type: str = "User"

    @classmethod
    def of(cls, text: str) -> "KafkaPrincipal":
        """Parse `User:alice`; the name may have colons (SecurityUtils.parseKafkaPrincipal)."""
        principal_type, _, name = text.partition(":")
        return cls(name, principal_type)

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal("ANONYMOUS")  # A client that sent neither a password nor a certificate.
