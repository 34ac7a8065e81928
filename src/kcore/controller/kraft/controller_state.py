"""The state of a controller that outlives its roles."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kcore.controller.kraft.activation import Bootstrap
from kcore.controller.kraft.kraft_context import ControllerContext, RaftView
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.outputs import Clocks
from kcore.controller.kraft.snapshot_loading import SnapshotLoading
from kcore.controller.kraft.snapshot_state import SnapshotState
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.image.replay import replaying
from kcore.wire.records import Records

NewContext: TypeAlias = Callable[[ClusterImage], ControllerContext]


class ControllerState:
    """The image with its context, the committed offset, and the snapshots. The roles replay records here."""

    def __init__(
        self,
        config: KraftControllerConfig,
        bootstrap: Bootstrap,
        clocks: Clocks,
        raft: RaftView,
        new_context: NewContext,
    ) -> None:
        self.config, self.bootstrap, self.clocks, self._new_context = config, bootstrap, clocks, new_context
        self.raft, self.snapshots = raft, SnapshotState(config)
        self.committed = 0  # All records below this offset are committed.
        self.is_empty = True  # True while only control records are committed.
        self.context = self._context_of(ClusterImage())

    @property
    def image(self) -> ClusterImage:
        """The state after all decisions, committed or not."""
        return self.context.image

    def _context_of(self, image: ClusterImage) -> ControllerContext:
        image.keep_journal()
        context = self._new_context(image)
        context.is_standby, context.raft, context.shadow = True, self.raft, self.snapshots.shadow
        context.wall_ahead_ms = self.clocks.wall_ms() - self.clocks.now_ms()
        return context

    def renew_context(self) -> None:
        """Make a new context over the same image, because a standby does not keep all of the context up to date."""
        before = self.context
        self.context = self._context_of(before.image)
        self.context.heartbeats, self.context.mutation_quotas = before.heartbeats, before.mutation_quotas

    def replay(self, records: Records) -> Iterator[None]:
        """Replay committed records in parts. TableError for records that do not fit the image."""
        yield from replaying(self.image, records, self.image.end_offset)
        self.is_empty = self.is_empty and bool(records.is_control.all())
        self.snapshots.need.count(len(records.data))

    def commit(self, offset: int) -> None:
        """Discard the journal below `offset`, except for changes that a snapshot being written needs."""
        self.image.commit(self.snapshots.unneeded(offset))

    def load(self, loading: SnapshotLoading) -> None:
        """Replace the state by the state of a snapshot that is read to its end."""
        image, offset = loading.whole(), loading.snapshot.offset
        self.is_empty = self.is_empty and loading.is_empty
        self.bootstrap = loading.bootstrap or self.bootstrap
        self.committed = offset
        self.snapshots.shadow = loading.shadow
        self.context = self._context_of(image)
        image.commit(offset)
        self.snapshots.need.begin(offset, self.clocks.wall_ms())
        self.snapshots.need.has_size(loading.size)
