"""The principal of a request that a broker forwards (KIP-590)."""

from kcore.schema.structure import Data


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal inside an EnvelopeRequest, with its version in front."""

    type: str  # "User", as a rule.
    name: str
    token_authenticated: bool  # True if it authenticated by a delegation token.
