"""The snapshots of one controller: when one is due, and the state that the one being written needs."""

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
        self._held: int | None = None

    def hold(self, offset: int) -> None:
        """Keep the image's journal from `offset` on, so that a snapshot of the state at `offset` can be written."""
        self._held = offset
        self.shadow.hold(offset)

    def release(self) -> None:
        """End a `hold`: no snapshot needs the journal any more. May be called without a `hold`."""
        self._held = None
        self.shadow.hold(None)

    def unneeded(self, offset: int) -> int:
        """The end of the part of the journal below `offset` that no snapshot needs."""
        return offset if self._held is None else min(offset, self._held)

    def image(self, image: ClusterImage) -> ClusterImage:
        """The image that snapshots are written from. It differs from `image` only if a departure is switched back."""
        return self.shadow.snapshot_image(image)
