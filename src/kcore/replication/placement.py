"""Places replicas of new partitions on brokers, by the rule of the article, of Kafka 3.9 or of KRaft.

"article": replica j of partition i is on broker (i + j) mod n, as in the first design. "kafka-3.9":
AdminUtils.assignReplicasToBrokers, with racks (KIP-36). "striped": KRaft's StripedReplicaPlacer, with fenced brokers
(KIP-500, KAFKA-12897).
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from kcore._ext.elections import placement as kernels
from kcore.constants import MAX_PARTITIONS
from kcore.errors import PlacementError
from kcore.metadata.table.arrays import as_array
from kcore.replication.java_random import JavaRandom, hash_map_order, string_hash, utf16_order
from kcore.types import Bools, Int32s, is_whole

Racks = Sequence[str | None]
PlacementKind = Literal["article", "kafka-3.9", "striped"]
KINDS: Final = get_args(PlacementKind)


def place(
    kind: PlacementKind,
    brokers: npt.ArrayLike,
    partitions: int,
    replication_factor: int,
    *,
    racks: Racks | None = None,
    start: int | None = None,
    seed: int | None = None,
    start_partition: int = 0,
    fenced: npt.ArrayLike | None = None,
) -> Int32s:
    """Place the replicas of `partitions` new partitions: broker ids, one row a partition, the preferred leader first.

    `brokers` are ids; `racks` and `fenced` have one entry a broker (None: no rack). `start` sets where "article"
    (default 0) and "kafka-3.9" begin; without it "kafka-3.9" draws from `seed` (default 0), as "striped" always does.
    `start_partition` is the index of the first new partition of a topic that grows; "striped" ignores it. Raises
    PlacementError if no placement satisfies the request, and for options that the kind does not have.
    """
    ids = _broker_ids(brokers)
    rack_of = _racks(racks, len(ids))
    is_fenced = _fenced(fenced, len(ids))
    _check_range("start_partition", start_partition, MAX_PARTITIONS)
    _check_range("start", 0 if start is None else start, MAX_PARTITIONS)
    for name, number in (
        ("partitions", partitions),
        ("replication_factor", replication_factor),
        ("seed", 0 if seed is None else seed),
    ):
        if not is_whole(number):
            raise PlacementError(f"{name} must be a whole number, not {number!r}")
    if partitions > MAX_PARTITIONS:
        raise PlacementError(f"{partitions} partitions are more than {MAX_PARTITIONS}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise PlacementError(f"unknown kind of placement {kind!r:.60}: one of {', '.join(KINDS)}")
    if kind == "striped":
        if start is not None:
            raise PlacementError("striped placement takes a seed, not a start")
        return place_striped(ids, rack_of, is_fenced, partitions, replication_factor, JavaRandom(seed or 0))
    if is_fenced.any():
        raise PlacementError(f"{kind} placement does not support fenced brokers: leave them out")
    if kind == "kafka-3.9":
        return _kafka_39(ids, rack_of, partitions, replication_factor, start, JavaRandom(seed or 0), start_partition)
    if seed is not None or any(rack is not None for rack in rack_of):
        raise PlacementError("article placement supports neither a seed nor racks")
    return _article(ids, partitions, replication_factor, (start or 0) + start_partition)


def _article(ids: Int32s, partitions: int, replication_factor: int, start: int) -> Int32s:
    _check_counts(partitions, replication_factor, len(ids))
    first__p = (start % len(ids) + np.arange(partitions)) % len(ids)
    wrapped = np.concatenate([ids, ids[:replication_factor]])
    return np.lib.stride_tricks.sliding_window_view(wrapped, replication_factor)[first__p]


def _kafka_39(
    ids: Int32s,
    racks: Racks,
    partitions: int,
    replication_factor: int,
    start: int | None,
    random: JavaRandom,
    start_partition: int,
) -> Int32s:
    _check_counts(partitions, replication_factor, len(ids))
    names = sorted({rack for rack in racks if rack is not None}, key=utf16_order)
    row_of: dict[str | None, int] = {name: row for row, name in enumerate(names)}
    racks__b = np.array([row_of.get(rack, 0) for rack in racks], np.int32)  # Without racks, all are in one rack.
    if names:
        if None in racks:
            raise PlacementError("a rack-aware placement needs the rack of every broker; some have none")
        order = _alternate_racks(ids, racks__b)
        ids, racks__b = ids[order], racks__b[order]
    shift = start
    if start is None or shift is None:
        start, shift = random.next_int(len(ids)), random.next_int(len(ids))
    replicas__ps = np.empty((partitions, replication_factor), np.int32)
    taken_by__b, taken_by__r = np.full(len(ids), -1, np.int32), np.full(max(len(names), 1), -1, np.int32)
    kernels.place_shifted(replicas__ps, ids, racks__b, taken_by__b, taken_by__r, start, shift, start_partition)
    return replicas__ps


def _alternate_racks(ids: Int32s, racks__b: Int32s) -> npt.NDArray[np.intp]:
    """The order that takes one broker of every rack in turn, each rack's brokers by id (KIP-36)."""
    by_rack = np.lexsort((ids, racks__b))
    sizes = np.bincount(racks__b)
    place_in_rack__b = np.empty(len(ids), np.int64)
    place_in_rack__b[by_rack] = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.lexsort((racks__b, place_in_rack__b))


class Stripes(NamedTuple):
    """Brokers for "striped", in lists: list 2r has the unfenced brokers of rack r, list 2r + 1 its fenced brokers."""

    brokers__b: Int32s  # Ids, list after list.
    starts__l: Int32s
    rack_order__r: Int32s  # By name; brokers without a rack first.
    shuffle_order__r: Int32s  # In the iteration order of a HashMap of the names.
    unfenced: int

    def drawn(self, random: JavaRandom) -> tuple[Int32s, int]:
        """Draw where each list of brokers and the list of racks begin (StripedReplicaPlacer.RackList)."""
        racks, sizes = len(self.rack_order__r), np.diff(self.starts__l).tolist()
        offsets = [0] * len(sizes)
        for rack in self.shuffle_order__r.tolist():
            for drawn in (2 * rack + 1, 2 * rack):  # A rack's fenced brokers draw first.
                offsets[drawn] = random.next_int(sizes[drawn]) if sizes[drawn] else 0
        return np.array(offsets, np.int32), random.next_int(racks) if racks else 0


def striped(ids: Int32s, racks: Racks, is_fenced: Bools) -> Stripes:
    """The input of `place_in_stripes`, for valid arrays; all topics of a request share it."""
    names = list(dict.fromkeys(racks))  # In the order of their first brokers, as in Kafka's map.
    row_of = {name: row for row, name in enumerate(names)}
    lists__b = np.array([2 * row_of[rack] for rack in racks], np.int32) + is_fenced
    hashed = hash_map_order(0 if name is None else string_hash(name) for name in names)
    ordered = sorted(range(len(names)), key=lambda row: (names[row] is not None, utf16_order(names[row] or "")))
    return Stripes(
        ids[np.lexsort((ids, lists__b))],
        np.searchsorted(np.sort(lists__b), np.arange(2 * len(names) + 1)).astype(np.int32),
        np.array(ordered, np.int32),
        np.array(hashed, np.int32),
        len(ids) - int(is_fenced.sum()),
    )


def place_striped(
    ids: Int32s, racks: Racks, is_fenced: Bools, partitions: int, replication_factor: int, random: JavaRandom
) -> Int32s:
    """As `place` with "striped", for valid arrays; draws from `random` and advances it."""
    return place_in_stripes(striped(ids, racks, is_fenced), partitions, replication_factor, random)


def place_in_stripes(stripes: Stripes, partitions: int, replication_factor: int, random: JavaRandom) -> Int32s:
    """As `place_striped`, for brokers in the form that `striped` returns."""
    offsets__l, first_rack = stripes.drawn(random)  # Kafka draws before it checks whether there are enough brokers.
    brokers = len(stripes.brokers__b)
    if replication_factor <= 0:
        raise PlacementError(f"invalid replication factor {replication_factor}: it must be positive")
    if not stripes.unfenced:
        raise PlacementError(f"all {brokers} brokers are fenced: there is none to lead")
    _check_enough(replication_factor, brokers)
    if partitions < 0:
        raise PlacementError(f"the number of partitions must not be negative, not {partitions}")
    replicas__ps = np.empty((partitions, replication_factor), np.int32)
    random.state = kernels.place_striped(
        replicas__ps,
        stripes.brokers__b.copy(),  # The kernel shuffles these lists in place.
        stripes.starts__l,
        offsets__l,
        np.zeros_like(offsets__l),
        np.zeros_like(offsets__l),
        stripes.rack_order__r.copy(),
        stripes.shuffle_order__r,
        stripes.unfenced,
        first_rack,
        random.state,
    )
    return replicas__ps


def _check_counts(partitions: int, replication_factor: int, brokers: int) -> None:
    if partitions <= 0:
        raise PlacementError(f"the number of partitions must be larger than 0, not {partitions}")
    if replication_factor <= 0:
        raise PlacementError(f"the replication factor must be larger than 0, not {replication_factor}")
    _check_enough(replication_factor, brokers)


def _check_enough(replication_factor: int, brokers: int) -> None:
    if replication_factor > brokers:
        raise PlacementError(f"replication factor {replication_factor} is larger than the {brokers} available brokers")


def _check_range(name: str, value: int, limit: int) -> None:
    if not is_whole(value):
        raise PlacementError(f"{name} must be a whole number, not {value!r}")
    if not 0 <= value <= limit:
        raise PlacementError(f"{name} must be from 0 to {limit}, not {value}")


def _broker_ids(brokers: npt.ArrayLike) -> Int32s:
    ids = as_array("brokers", brokers, PlacementError)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise PlacementError("brokers must be a sequence of ids")
    if ids.size and not (ids.min() >= 0 and ids.max() < 2**31):
        raise PlacementError("broker ids must be from 0 to 2**31 - 1")
    if len(np.unique(ids)) != len(ids):
        raise PlacementError("a broker id is given twice")
    return ids.astype(np.int32)


def _racks(racks: Racks | None, brokers: int) -> Racks:
    if racks is None:
        return [None] * brokers
    if not isinstance(racks, Sequence) or isinstance(racks, str | bytes):
        raise PlacementError(f"racks are a list of names, not {type(racks).__name__}")
    if len(racks) != brokers:
        raise PlacementError(f"{len(racks)} racks for {brokers} brokers")
    if strange := [rack for rack in racks if not isinstance(rack, str | None)]:
        raise PlacementError(f"a rack is a name or None, not {strange[0]!r}")
    return racks


def _fenced(fenced: npt.ArrayLike | None, brokers: int) -> Bools:
    is_fenced = np.zeros(brokers, np.bool_) if fenced is None else as_array("fenced", fenced, PlacementError)
    if is_fenced.shape != (brokers,) or is_fenced.dtype != np.bool_:
        raise PlacementError(f"fenced is {brokers} booleans, not {is_fenced.dtype} of shape {is_fenced.shape}")
    return is_fenced
