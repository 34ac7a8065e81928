"""Where brokers are reached, as control requests say it: the live brokers, and the live leaders of a LeaderAndIsr."""

from typing import Any

import numpy as np

from kcore.controller.states import cut, distinct, taken
from kcore.metadata.broker_table import BrokerTable, Endpoint
from kcore.types import Int16s
from kcore.wire.columns import Rows, Strings

NOWHERE = Endpoint(-1, "", "", 0)  # Node.noNode(): a broker without such a listener.


class LiveLeaders:
    """The `live_leaders` of several LeaderAndIsr requests: gathered once, cut for each.

    A broker's first listener counts as the one between brokers.
    """

    def __init__(self, brokers: BrokerTable, receivers: Int16s, broker_rows: Int16s, leaders: Int16s) -> None:
        """`receivers`: a broker row a request, ascending. A state to `broker_rows[k]` names the leader `leaders[k]`."""
        named = (leaders >= 0) & brokers.live[leaders]
        pairs = distinct(broker_rows[named].astype(np.int32) << 16 | leaders[named])
        rows = pairs & 0xFFFF
        places = [(each or (NOWHERE,))[0] for each in brokers.endpoints]
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


def live_brokers_of(brokers: BrokerTable) -> Rows:
    """The `live_brokers` of UpdateMetadata: those that shut down included, with all listeners."""
    rows = np.flatnonzero(brokers.live)
    lists = [brokers.endpoints[row] for row in rows.tolist()]
    endpoints = [endpoint for each in lists for endpoint in each]
    plain = [next((endpoint for endpoint in each if endpoint.listener == "PLAINTEXT"), NOWHERE) for each in lists]
    columns: dict[str, Any] = {
        "id": brokers.ids[rows],
        "endpoints": Rows(
            np.cumsum([0, *map(len, lists)], dtype=np.int32),
            port=np.array([endpoint.port for endpoint in endpoints], np.int32),
            host=Strings.of(endpoint.host for endpoint in endpoints),
            listener=Strings.of(endpoint.listener for endpoint in endpoints),
            security_protocol=np.array([endpoint.security_protocol for endpoint in endpoints], np.int16),
        ),
        "rack": Strings.of(brokers.racks[row] for row in rows.tolist()),
        # Version 0 knows one listener, of plain text; the newer ones drop these.
        "v0_host": Strings.of(endpoint.host for endpoint in plain),
        "v0_port": np.array([endpoint.port for endpoint in plain], np.int32),
    }
    return Rows(np.array([0, len(rows)], np.int32), **columns)
