"""The endpoints of brokers in control requests: UpdateMetadata's live brokers and LeaderAndIsr's live leaders."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kcore.controller.zk.requests.states import cut, distinct, elements_of, taken
from kcore.metadata.table.broker_registration import LiveBroker
from kcore.metadata.table.broker_table import BrokerTable, Endpoint
from kcore.types import Int16s
from kcore.wire.columns import Rows, Strings

NOWHERE = Endpoint(-1, "", "", 0)  # Node.noNode(): the broker does not have the listener.


class BrokerPlaces:
    """A cache of the brokers' endpoints and racks as columns, with a row for each broker of the table.

    They change only when a broker registers, so most events reuse the columns. The columns are built again when the
    table's lists have changed; lists of the same objects compare as equal in microseconds.
    """

    def __init__(self) -> None:
        self._endpoints: list[tuple[Endpoint, ...]] = []
        self._racks: list[str | None] = []
        self._listed: dict[LiveBroker | None, dict[str, Any]] = {}
        self._leaders: dict[str | None, dict[str, Any]] = {}

    def listed(self, brokers: BrokerTable, also: LiveBroker | None) -> dict[str, Any]:
        """The columns of UpdateMetadata's `live_brokers`, without the ids; `also` adds a last row."""
        self._check(brokers)
        if also not in self._listed:
            last = () if also is None else (also,)
            endpoints = [*self._endpoints, *(each.endpoints for each in last)]
            self._listed[also] = _listed_columns(endpoints, [*self._racks, *(each.rack for each in last)])
        return self._listed[also]

    def leaders(self, brokers: BrokerTable, listener: str | None) -> dict[str, Any]:
        """Hosts and ports for LeaderAndIsr's `live_leaders`: of this listener, or if None of each broker's first."""
        self._check(brokers)
        if listener not in self._leaders:
            places = [_between_brokers(each, listener) for each in self._endpoints]
            self._leaders[listener] = {
                "host_name": Strings.of(place.host for place in places),
                "port": np.array([place.port for place in places], np.int32),
            }
        return self._leaders[listener]

    def _check(self, brokers: BrokerTable) -> None:
        """Drops the columns if an endpoint or rack has changed."""
        if self._endpoints == brokers.endpoints and self._racks == brokers.racks:
            return
        self._endpoints, self._racks = [*brokers.endpoints], [*brokers.racks]
        self._listed.clear()
        self._leaders.clear()


class LiveLeaders:
    """The `live_leaders` of several LeaderAndIsr requests, gathered once and sliced for each request."""

    def __init__(
        self,
        brokers: BrokerTable,
        receivers: Int16s,
        broker_rows: Int16s,
        leaders: Int16s,
        places: BrokerPlaces,
        listener: str | None = None,
    ) -> None:
        """`receivers`: the broker row of each request, ascending. State k goes to `broker_rows[k]`; `leaders[k]` leads.

        `listener`: the inter-broker listener; None: each broker's first.
        """
        named = (leaders >= 0) & brokers.live[leaders]
        pairs = distinct(broker_rows[named].astype(np.int32) << 16 | leaders[named])
        rows = pairs & 0xFFFF
        columns = {name: taken(column, rows) for name, column in places.leaders(brokers, listener).items()}
        self._leaders: dict[str, Any] = {"broker_id": brokers.ids[rows], **columns}
        self._begins = np.append(np.searchsorted(pairs >> 16, receivers), len(pairs)).astype(np.int32)

    def of(self, begin: int, end: int) -> Rows:
        """The leaders in the requests begin..end, a row for each request."""
        offsets = self._begins[begin : end + 1]
        return Rows(offsets - offsets[0], **cut(self._leaders, int(offsets[0]), int(offsets[-1])))


def _between_brokers(endpoints: tuple[Endpoint, ...], listener: str | None) -> Endpoint:
    return next((each for each in endpoints if listener in (None, each.listener)), NOWHERE)


def live_brokers_of(brokers: BrokerTable, places: BrokerPlaces, listed: LiveBroker | None = None) -> Rows:
    """The `live_brokers` of UpdateMetadata with all listeners: live brokers, even shutting down, and `listed`."""
    rows = np.flatnonzero(brokers.live)
    ids = brokers.ids[rows]
    known = places.listed(brokers, listed)
    if listed and listed.id not in ids:
        rows, ids = np.append(rows, len(brokers)), np.append(ids, np.int32(listed.id))
    columns = {name: taken(column, rows) for name, column in known.items() if name != "endpoints"}
    endpoints = known["endpoints"]
    offsets, elements = elements_of(endpoints["offsets"], rows)
    columns["endpoints"] = Rows(
        offsets, **{name: taken(column, elements) for name, column in endpoints.items() if name != "offsets"}
    )
    return Rows(np.array([0, len(ids)], np.int32), id=ids, **columns)


def _listed_columns(lists: Sequence[tuple[Endpoint, ...]], racks: Sequence[str | None]) -> dict[str, Any]:
    endpoints = [endpoint for each in lists for endpoint in each]
    plain = [next((endpoint for endpoint in each if endpoint.listener == "PLAINTEXT"), NOWHERE) for each in lists]
    return {
        "endpoints": {
            "offsets": np.cumsum([0, *map(len, lists)], dtype=np.int32),
            "port": np.array([endpoint.port for endpoint in endpoints], np.int32),
            "host": Strings.of(endpoint.host for endpoint in endpoints),
            "listener": Strings.of(endpoint.listener for endpoint in endpoints),
            "security_protocol": np.array([endpoint.security_protocol for endpoint in endpoints], np.int16),
        },
        "rack": Strings.of(racks),
        # Version 0 has one plaintext listener; newer versions drop these fields.
        "v0_host": Strings.of(endpoint.host for endpoint in plain),
        "v0_port": np.array([endpoint.port for endpoint in plain], np.int32),
    }
