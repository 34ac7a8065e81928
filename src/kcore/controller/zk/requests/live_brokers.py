"""The endpoints of brokers in control requests: the live brokers, and the live leaders of a LeaderAndIsr."""

from typing import Any, NamedTuple

import numpy as np

from kcore.controller.zk.requests.states import cut, distinct, taken
from kcore.metadata.broker_table import BrokerTable, Endpoint
from kcore.types import Int16s
from kcore.wire.columns import Rows, Strings

NOWHERE = Endpoint(-1, "", "", 0)  # Node.noNode(): a broker without such a listener.


class LiveBroker(NamedTuple):
    """A node that UpdateMetadata lists and that is no broker: a controller without a znode in /brokers/ids."""

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class LiveLeaders:
    """The `live_leaders` of several LeaderAndIsr requests: gathered once, cut for each."""

    def __init__(
        self,
        brokers: BrokerTable,
        receivers: Int16s,
        broker_rows: Int16s,
        leaders: Int16s,
        listener: str | None = None,
    ) -> None:
        """`receivers`: a broker row a request, ascending. A state to `broker_rows[k]` names the leader `leaders[k]`.

        `listener`: the one between brokers; a broker's first if it is None.
        """
        named = (leaders >= 0) & brokers.live[leaders]
        pairs = distinct(broker_rows[named].astype(np.int32) << 16 | leaders[named])
        rows = pairs & 0xFFFF
        places = [_between_brokers(each, listener) for each in brokers.endpoints]
        self._leaders: dict[str, Any] = {
            "broker_id": brokers.ids[rows],
            "host_name": taken(Strings.of(place.host for place in places), rows),
            "port": np.array([place.port for place in places], np.int32)[rows],
        }
        self._begins = np.append(np.searchsorted(pairs >> 16, receivers), len(pairs)).tolist()

    def of(self, request: int) -> Rows:
        """The leaders that one of the requests names."""
        begin, end = self._begins[request : request + 2]
        return Rows(np.array([0, end - begin], np.int32), **cut(self._leaders, begin, end))


def _between_brokers(endpoints: tuple[Endpoint, ...], listener: str | None) -> Endpoint:
    return next((each for each in endpoints if listener in (None, each.listener)), NOWHERE)


def live_brokers_of(brokers: BrokerTable, listed: LiveBroker | None = None) -> Rows:
    """The `live_brokers` of UpdateMetadata: those that shut down included, with all listeners; and `listed`."""
    rows = np.flatnonzero(brokers.live)
    lists = [brokers.endpoints[row] for row in rows.tolist()]
    ids, racks = brokers.ids[rows], [brokers.racks[row] for row in rows.tolist()]
    if listed and listed.id not in ids:
        lists.append(listed.endpoints)
        ids, racks = np.append(ids, np.int32(listed.id)), [*racks, listed.rack]
    endpoints = [endpoint for each in lists for endpoint in each]
    plain = [next((endpoint for endpoint in each if endpoint.listener == "PLAINTEXT"), NOWHERE) for each in lists]
    columns: dict[str, Any] = {
        "id": ids,
        "endpoints": Rows(
            np.cumsum([0, *map(len, lists)], dtype=np.int32),
            port=np.array([endpoint.port for endpoint in endpoints], np.int32),
            host=Strings.of(endpoint.host for endpoint in endpoints),
            listener=Strings.of(endpoint.listener for endpoint in endpoints),
            security_protocol=np.array([endpoint.security_protocol for endpoint in endpoints], np.int16),
        ),
        "rack": Strings.of(racks),
        # Version 0 has one plaintext listener; newer versions drop these fields.
        "v0_host": Strings.of(endpoint.host for endpoint in plain),
        "v0_port": np.array([endpoint.port for endpoint in plain], np.int32),
    }
    return Rows(np.array([0, len(ids)], np.int32), **columns)
