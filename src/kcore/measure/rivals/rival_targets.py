"""The targets of the comparison with rivals: each with its bound, and whether this run met the bound."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

MB: Final = 1e6
MIB: Final = 1 << 20
NEWEST_JAVA: Final = "java 4.3"
NEWEST_KIO: Final = "kio 0.6.5"
RIVALS: Final = ("java", NEWEST_JAVA, "rust", "go", "kio", NEWEST_KIO)
KCORE: Final = "kcore columns"
MEMCPY: Final = "memcpy"
PLAIN_C: Final = "plain C"
BOUNDS: Final = (MEMCPY, PLAIN_C)  # Peers that only touch the data: lower bounds, not rivals.
OBJECTS: Final = "kcore objects"
WARM: Final = 4
FIRST_CALL: Final = 12
SCANS: Final = {"uniform": 4, "x10": 4, "x100": 14}
"""The bounds of decisions, in plain C passes: unlike times, ratios hold on other machines. A call of 10 million
partitions allocates new memory for its masks."""
OPERATIONS: Final = ("decode", "encode", "encode_fresh", "fanout", "fanout_copy")
SHORT_MESSAGES: Final = ("BrokerHeartbeatRequest:2:small",)  # At most 50 bytes: the call itself takes most of the time.
SMALL_MESSAGES: Final = (
    *("VoteRequest:2:small", *SHORT_MESSAGES, "BrokerRegistrationRequest:4:small", "FetchRequest:18:small"),
    *("FetchResponse:18:small", "AlterPartitionRequest:3:small", "EnvelopeRequest:0:small"),
    *("AssignReplicasToDirsRequest:0:small", "DescribeQuorumResponse:2:small"),
)
BIG_MESSAGES: Final = (
    *("MetadataResponse:13:big", "FetchRequest:18:big", "FetchResponse:18:big", "AlterPartitionRequest:3:big"),
    *("AssignReplicasToDirsRequest:0:big", "CreateTopicsRequest:7:big", "DescribeQuorumResponse:2:big"),
    "StopReplicaRequest:4:big",
)


@dataclass(frozen=True, slots=True)
class TargetResult:
    """A target: its description, bound and figure (None if a peer is missing), the unit, and whether it is met."""

    target: str
    bound: str
    value: float | None
    unit: str
    met: bool | None


class Figures:
    """Looks up figures by peer and case; None if the case was not measured."""

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._rows = {(row["peer"], row["case"]): row for row in rows}

    def ns(self, peer: str, case: str) -> float | None:
        return self._value(peer, case, "ns_min")

    def mib(self, peer: str, case: str) -> float | None:
        return self._value(peer, case, "mib")

    def fastest(self, case: str) -> float | None:
        """The least time that a rival library took for the case; None if no rival ran it."""
        return min((ns for peer in RIVALS if (ns := self.ns(peer, case)) is not None), default=None)

    def _value(self, peer: str, case: str, key: str) -> float | None:
        value = self._rows.get((peer, case), {}).get(key)
        return None if value is None else float(value)


def outcomes(rows: Iterable[dict[str, Any]]) -> list[TargetResult]:
    """Every target for which this run has a figure of kcore or of a rival."""
    figures = Figures(rows)
    found = [*_codec(figures), *_objects(figures), *_decisions(figures), *_memory(figures), *_messages(figures)]
    found.extend(_records(figures))
    return [outcome for outcome in found if outcome is not None]


def _codec(figures: Figures) -> Iterable[TargetResult | None]:
    for request in ("LeaderAndIsrRequest:7:uniform", "UpdateMetadataRequest:8:uniform"):
        name = _short(request)
        ours = {op: figures.ns(KCORE, f"{op}:{request}") for op in OPERATIONS}
        memcpy, java = figures.ns(MEMCPY, f"decode:{request}"), figures.ns("java", f"decode:{request}")
        yield _at_least(f"{name} column decode, against Java", 5, java, ours["decode"])
        yield _at_most(f"{name} column decode, in memcpys", 5, ours["decode"], memcpy)
        for op, words in (("encode", "into a reused buffer"), ("encode_fresh", "fresh")):
            rival = figures.fastest(f"{op}:{request}")
            yield _at_least(f"{name} column encode {words}, against the fastest rival", 3, rival, ours[op])
        yield _at_most(f"{name} fan-out to a further broker, no copy, in memcpys", 1.5, ours["fanout"], memcpy)
        fresh = figures.ns(MEMCPY, f"fanout_copy:{request}")
        yield _at_most(f"{name} the same in one piece, in memcpys into fresh memory", 1.5, ours["fanout_copy"], fresh)


def _objects(figures: Figures) -> Iterable[TargetResult | None]:
    for request in ("LeaderAndIsrRequest:7:uniform", "UpdateMetadataRequest:8:uniform"):
        for op, words, least in (("decode", "object decode, gc on", 1.5), ("encode", "object encode", 15)):
            kio, ours = figures.ns("kio", f"{op}:{request}"), figures.ns(OBJECTS, f"{op}:{request}")
            yield _at_least(f"{_short(request)} {words}, against kio", least, kio, ours)
        kio, ours = figures.ns("kio", f"decode_nogc:{request}"), figures.ns(OBJECTS, f"decode_nogc:{request}")
        yield _at_least(f"{_short(request)} object decode, gc off, against kio", 2, kio, ours)
        kio, ours = figures.ns("kio", f"read_nogc:{request}"), figures.ns(OBJECTS, f"read_nogc:{request}")
        yield _reported(f"{_short(request)} object decode, every list read, gc off, against kio", kio, ours)


def _decisions(figures: Figures) -> Iterable[TargetResult | None]:
    for kind, words in (("offline", "ZooKeeper mode"), ("fence", "KRaft")):
        plain = figures.ns(PLAIN_C, f"{kind}:uniform")
        for suffix, call, most in (("", "warm", WARM), (":first", "first call", FIRST_CALL)):
            name = f"one broker of 100 lost, {words}, {call}, in plain C passes over the same columns"
            yield _at_most(name, most, figures.ns(KCORE, f"{kind}:uniform{suffix}"), plain)
    for shape, words in (("uniform", "--partitions"), ("x10", "10 times as many"), ("x100", "100 times as many")):
        name = f"one broker down, full scan, {words}, in plain C passes over the leaders"
        yield _at_most(name, SCANS[shape], figures.ns(KCORE, f"scan:{shape}"), figures.ns(PLAIN_C, f"scan:{shape}"))
    java, ours = figures.ns("java", "full:uniform"), figures.ns(KCORE, "full:uniform")
    yield _reported("every partition elects, against Kafka's classes", java, ours)
    for case, words in (("end_offsets", "end offsets for epochs"), ("truncation", "truncation exchange")):
        yield _at_least(f"{words}, against Kafka's classes", 15, figures.ns("java", case), figures.ns(KCORE, case))


def _memory(figures: Figures) -> Iterable[TargetResult | None]:
    mib = figures.mib(KCORE, "memory:LeaderAndIsrRequest:7:large")
    if mib is not None:
        mb = mib * MIB / MB
        yield TargetResult("live MB, 10 times --partitions decoded", "< 70", mb, "MB", mb < 70)


def _messages(figures: Figures) -> Iterable[TargetResult | None]:
    for message in SMALL_MESSAGES:
        name, is_short = _short(message), message in SHORT_MESSAGES
        ours = {op: figures.ns(OBJECTS, f"{op}:{message}") for op in ("decode", "encode")}
        kio = {op: figures.ns(NEWEST_KIO, f"{op}:{message}") for op in ours}
        yield _at_least(f"{name} object decode, against kio", 1.5 if is_short else 3, kio["decode"], ours["decode"])
        java = figures.ns(NEWEST_JAVA, f"decode:{message}")
        yield _at_most(f"{name} object decode, in Java's times", 10, ours["decode"], java)
        yield _at_least(f"{name} object encode, against kio", 10 if is_short else 15, kio["encode"], ours["encode"])
    for message in BIG_MESSAGES:
        for op, least in (("decode", 3), ("encode", 2)):
            case = f"{op}:{message}"
            target = f"{_short(message)} column {op}, against the fastest rival"
            yield _at_least(target, least, figures.fastest(case), figures.ns(KCORE, case))


def _records(figures: Figures) -> Iterable[TargetResult | None]:
    crc, java = figures.ns(KCORE, "crc:segment"), figures.ns(NEWEST_JAVA, "batches:segment")
    ours = figures.ns(KCORE, "batches:segment")
    yield _at_least("segment scan with CRC, in the speed of a bare CRC-32C", 0.8, crc, ours)
    yield _at_least("segment scan with CRC, against Kafka's classes", 3, java, ours)
    mapped = figures.ns(NEWEST_JAVA, "mapped:segment")
    yield _reported("segment scan with CRC, against Kafka's classes over a mapped file", mapped, ours)


def _short(request: str) -> str:
    message, version, _ = request.split(":")
    return f"{message.removesuffix('Request')} v{version}"


def _at_least(target: str, least: float, theirs: float | None, ours: float | None) -> TargetResult | None:
    return _ratio(target, f">= {least:g}x", theirs, ours, lambda ratio: ratio >= least)


def _at_most(target: str, most: float, ours: float | None, bound: float | None) -> TargetResult | None:
    return _ratio(target, f"<= {most:g}x", ours, bound, lambda ratio: ratio <= most)


def _reported(target: str, theirs: float | None, ours: float | None) -> TargetResult | None:
    """The ratio of two figures without a bound."""
    return TargetResult(target, "reported", theirs / ours, "x", None) if theirs and ours else None


def _ratio(
    target: str, bound: str, above: float | None, below: float | None, is_met: Callable[[float], bool]
) -> TargetResult | None:
    if above is None and below is None:
        return None  # This run did not measure the target.
    if above is None or not below:
        return TargetResult(target, bound, None, "x", None)
    return TargetResult(target, bound, above / below, "x", is_met(above / below))
