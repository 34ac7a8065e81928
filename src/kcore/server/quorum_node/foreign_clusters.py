"""Logs nodes of other clusters: a node that was formatted with another cluster id would otherwise fail silently."""

import logging

from kcore.net.limits.bounded_log import BoundedLog
from kcore.schema.broker_lifecycle import BrokerRegistrationRequest
from kcore.schema.fetch import FetchRequest
from kcore.schema.structure import Message

logger = logging.getLogger(__name__)


class ForeignClusters:
    """Writes a bounded number of lines about requests that name another cluster."""

    def __init__(self) -> None:
        self._log = BoundedLog(logger, burst=1, every_s=60.0)  # A refused node asks many times a second.

    def look(self, request: Message, cluster_id: str | None) -> None:
        """Logs a line if a follower or a broker of another cluster than `cluster_id` sent the request."""
        if isinstance(request, BrokerRegistrationRequest):
            node_id = request.broker_id
        elif isinstance(request, FetchRequest):
            node_id = max(request.replica_id, request.replica_state.replica_id)
        else:
            return
        if cluster_id is not None and request.cluster_id not in (None, cluster_id):
            self._log.warning(
                "refused node %d: it was formatted for cluster %s, and this is cluster %s. "
                "Format its log directories with the id of this cluster",
                *(node_id, request.cluster_id, cluster_id),
            )
