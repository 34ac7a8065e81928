"""A broker's node of the metadata quorum: an observer with its own copy of the log, and without a listener."""

import asyncio
from collections.abc import Callable
from typing import Any

from kcore.broker.metadata_delta.loader import ImageChanged, MetadataLoader, ReadSnapshotSlice
from kcore.metadata.broker_table import SECURITY_PROTOCOLS, Endpoint
from kcore.raft.config import RaftConfig
from kcore.raft.log import RaftLog
from kcore.server.quorum.process import Elections, QuorumServer


class MetadataObserver(QuorumServer):
    """Within `async with` it follows the log; `on_image` is called whenever the loader's image has changed."""

    def __init__(
        self,
        config: RaftConfig,
        log: RaftLog,
        elections: Elections,
        loader: MetadataLoader,
        on_image: Callable[[ImageChanged], None],
    ) -> None:
        super().__init__(config, log, elections, host=None, port=0, machine=loader, front="plain")
        self._loader, self._on_image = loader, on_image

    def controller(self) -> Endpoint | None:
        """The listener of the leader, which is the active controller; None while there is none, or it is unknown."""
        state = self.node.quorum.state
        where = state.leader_endpoints.get(self.config.listener) if state.leader_id >= 0 else None
        if where is None:
            return None
        return Endpoint(where.port, where.host, self.config.listener, SECURITY_PROTOCOLS["PLAINTEXT"])

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
