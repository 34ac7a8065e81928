"""The snapshots of one controller: when one is due, and the state that snapshots being written need."""

from collections.abc import Callable

from kcore.controller.kraft.departures import SNAPSHOTS_AT_FIXED_BYTES
from kcore.controller.kraft.kafka_way.shadow import shadow_of
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.metadata.image.image import ClusterImage
from kcore.node.kraft.snapshot_slices import SnapshotNeed


class SnapshotState:
    """Which snapshots the edge must write, and from which image and journal."""

    def __init__(self, config: KraftControllerConfig) -> None:
        self.need = SnapshotNeed(config.node, in_proportion=SNAPSHOTS_AT_FIXED_BYTES not in config.kafka_way)
        self.shadow = shadow_of(config.kafka_way)  # State of Kafka's controller that the image does not have.
        self._holds: dict[object, int] = {}  # Offsets of the snapshots that still need the journal.

    def hold(self, offset: int) -> Callable[[], None]:
        """Keep the image's journal from `offset` on, so that a snapshot of the state at `offset` can be written.

        Returns a function that ends this hold; further calls of the function have no effect. Several snapshots, also of
        the same offset, may hold the journal at the same time.
        """
        key = object()

        def release() -> None:
            if self._holds.pop(key, None) is not None:
                self.shadow.hold(min(self._holds.values(), default=None))

        self._holds[key] = offset
        self.shadow.hold(min(self._holds.values()))
        return release

    def unneeded(self, offset: int) -> int:
        """The end of the part of the journal below `offset` that no snapshot needs."""
        return min([offset, *self._holds.values()])

    def image(self, image: ClusterImage) -> ClusterImage:
        """The image that snapshots are written from. It differs from `image` only if a departure is switched back."""
        return self.shadow.snapshot_image(image)
