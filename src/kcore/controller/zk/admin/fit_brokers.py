"""The brokers that may have new replicas, for all topics of a request."""

from kcore.controller.rules import new_replicas
from kcore.controller.zk.zk_context import ControllerContext


class FitBrokers:
    """The registered brokers that may have replicas of a topic, listed once for all topics of a kind."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._brokers: dict[frozenset[int], dict[int, str | None]] = {}

    def of_topic(self, topic: str) -> dict[int, str | None]:
        """The racks of these brokers, by ascending id."""
        unfit = frozenset(self._context.unfit_for(topic))
        if unfit not in self._brokers:
            self._brokers[unfit] = new_replicas.registered(self._context.table.brokers, unfit)
        return self._brokers[unfit]
