"""A broker's node of the metadata quorum: an observer with its own copy of the log, and without a listener."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader, ReadSnapshotSlice
from kcore.controller.kraft.slices import SnapshotNeed, snapshot_slices
from kcore.errors import StorageError
from kcore.metadata.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.raft.config import RaftConfig
from kcore.raft.log import RaftLog
from kcore.replication.raft_log import OffsetAndEpoch
from kcore.server.broker.kraft_settings import RELEASE
from kcore.server.quorum.process import Elections, QuorumServer

logger = logging.getLogger(__name__)
SNAPSHOT_CHECK_S: Final = 1.0


class MetadataObserver(QuorumServer):
    """Within `async with` it follows the log; `on_image` is called whenever the loader's image has changed."""

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        elections: Elections,
        loader: MetadataLoader,
        on_image: Callable[[ImageChanged], None],
        need: SnapshotNeed,
    ) -> None:
        """`need`: when the state is written as a snapshot, below which the log can go."""
        super().__init__(config, log, elections, host=None, port=0, machine=loader, front="plain")
        self._loader, self._on_image, self._need = loader, on_image, need

    def controller(self) -> Endpoint | None:
        """The listener of the leader, which is the active controller; None while there is none, or it is unknown."""
        state = self.node.quorum.state
        where = state.leader_endpoints.get(self.config.listener) if state.leader_id >= 0 else None
        if where is None:
            return None
        return Endpoint(where.port, where.host, self.config.listener, SECURITY_PROTOCOLS["PLAINTEXT"])

    async def write_snapshots(self) -> None:
        """For ever: writes one when it is due (SnapshotGenerator). One that fails is tried again when the next is."""
        need, loader, counted = self._need, self._loader, 0
        while True:
            await asyncio.sleep(SNAPSHOT_CHECK_S)
            read, now_ms, offset = loader.read_bytes, self._clock.now_ms(), loader.end_offset
            need.count(read - counted)
            counted = read
            image = loader.image
            if image.in_transaction or FEATURE_NAME not in image.features or image.end_offset != offset:
                continue
            if (why := need.why(offset, now_ms)) is None:
                continue
            need.begin(offset, now_ms)
            snapshot = OffsetAndEpoch(offset, self.node.log.epoch_at(offset - 1))
            slices = snapshot_slices(image.copy(), None, snapshot.epoch, now_ms, _nothing, RELEASE)
            try:
                is_written = await self.write_snapshot(snapshot, now_ms, slices)
            except StorageError as error:  # The disk is full, or gone.
                logger.error("the snapshot %s-%s was not written: %s", snapshot.offset, snapshot.epoch, error)
                continue
            except Exception:
                logger.exception("the snapshot %s-%s was not written", snapshot.offset, snapshot.epoch)
                continue
            if is_written:
                need.has_size(self.metrics.snapshots.latest_bytes)
                logger.info("snapshot %s-%s is written: %s", snapshot.offset, snapshot.epoch, why)

    def _perform_own(self, effect: Any) -> None:
        if isinstance(effect, ImageChanged):
            self._on_image(effect)
        elif isinstance(effect, ReadSnapshotSlice):
            asyncio.get_running_loop().call_soon(self._read_slice)
        else:
            super()._perform_own(effect)

    def _read_slice(self) -> None:
        def read(_: int) -> list[Any]:
            self._outputs += self._loader.on_read_slice()
            return []

        self._take("snapshot slice read", read)


def _nothing() -> None:
    """The copy of the image is the snapshot's alone."""
