"""The link of a broker to the controllers of a KRaft cluster, through its copy of the metadata log."""

from collections.abc import Callable, Collection
from typing import Final

from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader
from kcore.broker.replicas.replica_manager import ReplicaManager
from kcore.errors import DisconnectedError
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_table import Endpoint
from kcore.node.kraft.image_indexes import ImageAuthorizer
from kcore.node.kraft.snapshot_slices import SnapshotNeed
from kcore.releases.known import RELEASES
from kcore.server.broker.broker_connections import Dialer
from kcore.server.broker.broker_request_handlers import is_exempt
from kcore.server.clock import now_ms
from kcore.server.kraft_broker.kraft_broker_request_handlers import NOT_YET
from kcore.server.kraft_broker.kraft_broker_settings import KraftBrokerSettings
from kcore.server.kraft_broker.kraft_configs import BrokerConfigs
from kcore.server.kraft_broker.metadata_observer import MetadataObserver, OwnLog, controller_endpoint
from kcore.server.security.log_credentials import LogCredentials
from kcore.server.security.request_throttle import KnownByImage, RequestThrottle


class KraftLink:
    """Implements ClusterLink. The broker serves once `image` is set."""

    def __init__(
        self,
        settings: KraftBrokerSettings,
        cluster_id: str,
        manager: ReplicaManager,
        metadata: OwnLog,
        on_image: Callable[[ImageChanged], None],
        report_failed_directories: Callable[[], None],
    ) -> None:
        """`on_image`: called after each change of the loader's image."""
        self.config: Final = settings.node_config(cluster_id)
        self.loader: Final = MetadataLoader(RELEASES[settings.release])
        self.image: ClusterImage | None = None  # The image that the replicas follow.
        need = SnapshotNeed(self.config)
        self.observer: Final = MetadataObserver(
            metadata, self.loader, on_image, need, settings.controllers, settings.release
        )
        self.configs: Final = BrokerConfigs(self.config, manager, now_ms)
        self.dialer: Final = Dialer(settings.controllers.outgoing())
        self.authorizer: Final = ImageAuthorizer(self.config, self._known) if self.config.has_authorizer else None
        self.credentials: Final = LogCredentials(self._known, self.config.delegation_token_secret_key, lambda: True)
        windows = self.config.quota_window_num, self.config.quota_window_size_seconds
        self.throttle: Final = RequestThrottle(KnownByImage(lambda: self.image), now_ms, is_exempt, *windows)
        self.report_failed_directories: Final = report_failed_directories
        self._manager, self._security = manager, settings.controllers

    def _known(self) -> ClusterImage:
        """The image; DisconnectedError until it is complete, because clients do not retry a failed authentication."""
        if self.image is None:
            raise DisconnectedError(NOT_YET)
        return self.loader.image

    def controller(self) -> Endpoint | None:
        return controller_endpoint(self.observer.runtime, self._security)

    def knows_envelopes(self) -> bool:
        return True

    def broker_epoch(self) -> int:
        return self._manager.broker_epoch

    def has_states(self) -> bool:
        return self.image is not None

    def keep_settings(self, topics: Collection[str]) -> None:
        self.configs.keep_only(topics)
