"""The principal of a request that a broker forwards (KIP-590)."""

from kcore.schema.structure import Data


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal in an EnvelopeRequest; its version precedes it."""

    type: str  # Usually "User".
    name: str
    token_authenticated: bool  # True if the principal authenticated by a delegation token.
