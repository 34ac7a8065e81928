"""Principals, as ACLs, delegation tokens and envelopes name them (KafkaPrincipal), and delegation tokens (KIP-48)."""

from collections.abc import Set
from typing import Final, NamedTuple

from kcore.schema.metadata_records_security import DelegationTokenRecord


class KafkaPrincipal(NamedTuple):
    """A name and a type, as text `User:alice`. Kafka's only type is User."""

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


class Token(NamedTuple):
    """TokenInformation; times are in ms since 1970."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    @classmethod
    def of_record(cls, record: DelegationTokenRecord) -> "Token":
        """The token of a record of the metadata log."""
        return cls(
            record.token_id,
            KafkaPrincipal.of(record.owner),
            KafkaPrincipal.of(record.requester),
            tuple(map(KafkaPrincipal.of, record.renewers)),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def may_renew(self, principal: KafkaPrincipal) -> bool:
        """True if the principal may renew or expire the token (DelegationTokenManager.allowedToRenew)."""
        return principal == self.owner or principal in self.renewers

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """True if the principal owns, may renew or requested the token (TokenInformation.ownerOrRenewer)."""
        return principal == self.requester or self.may_renew(principal)

    def is_of_any(self, principals: Set[KafkaPrincipal]) -> bool:
        """As `is_of`, for any of the principals."""
        return any(each in principals for each in (self.owner, self.requester, *self.renewers))
