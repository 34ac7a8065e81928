"""ApiVersions, the first request on a connection: the APIs and versions that the broker supports (KIP-35)."""

from kcore.schema.kinds import int16, int32, int64
from kcore.schema.structure import Message, Struct, field


class ApiVersionsRequest(Message, api_key=18, versions="0-5", flexible="3+"):
    """A client asks which APIs the broker supports."""

    # The client's name and version, for the broker's metrics (KIP-511).
    client_software_name: str = field(versions="3+", ignorable=True)
    client_software_version: str = field(versions="3+", ignorable=True)
    # The cluster and the node that the client means, both or none: a broker refuses misrouted clients (KIP-1242).
    cluster_id: str | None = field(versions="5+", nullable="5+", default=None, ignorable=True)
    node_id: int32 = field(versions="5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """An API and its supported versions."""

    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeatureKey(Struct):
    """A feature and its levels that this broker supports (KIP-584)."""

    name: str
    min_version: int16
    max_version: int16


class FinalizedFeatureKey(Struct):
    """A feature and its finalized levels in the cluster (KIP-584)."""

    name: str
    max_version_level: int16
    min_version_level: int16


class ApiVersionsResponse(Message, api_key=18, versions="0-5", flexible="3+"):
    """The broker's APIs and features, and the finalized features of its cluster."""

    error_code: int16
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field(versions="1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(versions="3+", tag=0, tagged="3+", ignorable=True)
    # Rises with each change of the finalized features; -1 for unknown.
    finalized_features_epoch: int64 = field(versions="3+", tag=1, tagged="3+", default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(versions="3+", tag=2, tagged="3+", ignorable=True)
    # True if the controller is ready for the migration from ZooKeeper (KIP-866).
    zk_migration_ready: bool = field(versions="3+", tag=3, tagged="3+", ignorable=True)

    @classmethod
    def header_version(cls, version: int) -> int:
        """Always 0: a client that requests an unsupported version must be able to read the answer (KIP-511)."""
        return 0
