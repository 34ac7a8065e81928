"""Principal."""

from kcore.schema.structure import Data


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """DefaultPrincipalData, as Kafka has it."""

    type: str
    name: str
    token_authenticated: bool
