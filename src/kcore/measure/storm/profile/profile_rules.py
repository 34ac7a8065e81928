"""Tables of the rules that give a stack its layer and its event, one for each kind of controller.

A stack's layer is that of the first rule of `enclosing` that matches any frame, such as logging. If no such rule
matches, the innermost frame that a rule of `layers` matches decides: the time of a compiled kernel belongs to its
caller's layer. The event is that of the first rule of `events` that matches a frame.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

NETWORK: Final = "network"
REQUESTS: Final = "requests, queues"
WIRE: Final = "wire"
RAFT: Final = "raft"
LOG: Final = "log"
DECISION: Final = "decision"
STATE: Final = "state"
HEARTBEATS: Final = "heartbeats"
ZOOKEEPER: Final = "ZooKeeper"
LOGGING: Final = "logging"
METRICS: Final = "metrics"
ANSWER_LOOP: Final = "answer loop"
GC: Final = "garbage collector"
JIT: Final = "JIT compiler"
RUNTIME: Final = "runtime"
NATIVE: Final = "native threads"
UNSAMPLED: Final = "not sampled"
OTHER: Final = "other"
LAYERS: Final = {
    NETWORK: "sockets, selectors, frames, the event loop",
    REQUESTS: "a request between its connection and the decision: queues, dispatch, permissions",
    WIRE: "requests, responses and records encoded and decoded",
    RAFT: "the quorum's protocol: appends, fetches, high watermark, waiting requests",
    LOG: "the log on the disk: batches written, read and flushed",
    DECISION: "decisions about requests and events",
    STATE: "records replayed into the state, images and deltas of it",
    HEARTBEATS: "sessions of brokers",
    ZOOKEEPER: "ZooKeeper's client",
    LOGGING: "lines for the operator",
    METRICS: "metrics",
    ANSWER_LOOP: "fetches and heartbeats that kcore answers without Python",
    GC: "threads that collect garbage",
    JIT: "threads that compile bytecode",
    RUNTIME: "other threads of the virtual machine",
    NATIVE: "threads without frames of Python",
    UNSAMPLED: "threads that worked for too short a time to be seen",
    OTHER: "no rule matched",
}
"""Each layer with its description, in the order of the tables."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Frames that `pattern` matches belong to `name`, in which "{0}" stands for the pattern's first group."""

    pattern: re.Pattern[str]
    name: str

    def name_of(self, frame: str) -> str | None:
        """The name for a frame; None if the pattern does not match it."""
        found = self.pattern.search(frame)
        return self.name.format(*found.groups()) if found else None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for one kind of controller."""

    enclosing: Sequence[Rule]
    layers: Sequence[Rule]
    events: Sequence[Rule]
    threads: Sequence[Rule]  # By thread name: the layer of all their time, for any stack.
    unseen: str = UNSAMPLED  # The layer of threads that the sampler never sees.
    trunk: Sequence[str] = field(default=())  # The first of these that a stack has is cut off, with all outer frames.
    waits: Sequence[str] = field(default=())  # Innermost frames of threads that wait.

    def layer_of(self, frames: Sequence[str]) -> str:
        """The layer of a stack, outermost frame first."""
        if found := _of_any(self.enclosing, frames):
            return found
        for frame in reversed(frames):
            if found := _first(self.layers, frame):
                return found
        return OTHER

    def event_of(self, frames: Sequence[str]) -> str:
        """The event on whose behalf a stack ran."""
        return _of_any(self.events, frames) or OTHER

    def layer_of_thread(self, name: str) -> str | None:
        """The layer of all the thread's time; None if its stacks decide."""
        return _first(self.threads, name)

    def trimmed(self, frames: tuple[str, ...]) -> tuple[str, ...]:
        """The frames without the outer frames that all stacks have."""
        for frame in self.trunk:
            if frame in frames[:-1]:
                return frames[frames.index(frame) + 1 :]
        return frames


def _of_any(rules: Sequence[Rule], frames: Sequence[str]) -> str | None:
    """The name by the first rule that matches a frame; the outermost matching frame decides."""
    return next((found for rule in rules for frame in frames if (found := rule.name_of(frame))), None)


def _first(rules: Sequence[Rule], frame: str) -> str | None:
    for rule in rules:
        if found := rule.name_of(frame):
            return found
    return None


def _rules(*pairs: tuple[str, str]) -> tuple[Rule, ...]:
    return tuple(Rule(re.compile(pattern), name) for pattern, name in pairs)


KCORE: Final = Rules(
    enclosing=_rules(
        (r"\((python3\.\d+/)?logging/|\(kcore/(controller/(kraft|zk)/log_lines|node/zk/notices)\.py", LOGGING),
        (r"prometheus_client|\(kcore/server/(metrics/(?!watched_loop)|\w+/\w+_metrics\.py)", METRICS),
        (r"^AnswerLoop\._run \(", ANSWER_LOOP),
    ),
    layers=_rules(
        (r"\(kcore/controller/kraft/(heartbeats|brokers/heartbeat)\.py", HEARTBEATS),
        (r"\(kcore/(wire|schema)/|\(kcore/metadata/(table/partition_values|image/image_writer)\.py", WIRE),
        (r"\(kcore/raft/log/batches\.py", WIRE),
        (r"\(kcore/storage/", LOG),
        (r"\(kcore/raft/", RAFT),
        (r"\(kcore/(metadata/|controller/kraft/(writing|standby|snapshot_loading)|node/kraft/snapshot_slices)", STATE),
        (r"\(kcore/(controller|node|replication)/", DECISION),
        (r"\(kcore/zookeeper/|\(kazoo/", ZOOKEEPER),
        (r"\(kcore/server/metrics/watched_loop\.py", NETWORK),
        (r"\(kcore/net/|\((asyncio|python3\.\d+)/(selector_events|sslproto|selectors|ssl)\.py", NETWORK),
        (r"\(kcore/server/|\((concurrent/)?futures/", REQUESTS),
        (r"\(asyncio/", NETWORK),
    ),
    events=_rules(
        (r"^AnswerLoop\._run ", ANSWER_LOOP),
        (r"^on_(\w+) \(kcore/controller/(?:kraft/(?:brokers|topics|leaders|admin)|zk/\w+)/", "decide {0}"),
        (r"^(?:KraftController\.on_timer|fence_stale_brokers) ", "periodic work"),
        (r"^(?:Pipeline\._write_on|Writing\._write|taking_effect) ", "write and replay a decision"),
        (r"^RaftNode\.append_batches ", "append"),
        (r"^LogFlusher\._flush |^OsFileSystem\.fsync ", "flush"),
        (r"^on_fetch_request |^RaftNode\.on_request ", "Fetch"),
        (r"^(?:PendingRequests|QuorumRequestHandlers)\.(?:_write_late|answer)", "answer waiting Fetches"),
        (r"^(?:KraftController\.on_request|KraftServer\._on_request) ", "other requests"),
        (r"^(?:Registration|PeriodicTasks)\.", "periodic work"),
        (r"^(?:Served\w+|DirectConnections|FrameTransport)\.|^_SelectorSocketTransport\._read_ready", "connections"),
        (r"^Connection\.send|^connect \(kcore/net/", "requests to other nodes"),
        (r"\(kazoo/|\(kcore/zookeeper/", "ZooKeeper's answers"),
        (r"^BaseEventLoop\._run_once |^BaseSelectorEventLoop\._process_events |^TimerHandle\.", "event loop"),
    ),
    threads=(),
    unseen=NATIVE,
    trunk=("BaseEventLoop._run_once (asyncio/base_events.py)", "_worker (futures/thread.py)"),
    # py-spy reads a thread's state first and its stack a moment later, when the thread may wait again.
    waits=(r"EpollSelector\.select ", r"^_worker \("),
)

_KAFKA: Final = r"^org\.apache\.kafka\."
KAFKA: Final = Rules(
    enclosing=_rules(
        (r"^org\.(slf4j|apache\.logging|apache\.log4j)\.|LogContext\$|^kafka\.utils\.Logging", LOGGING),
        (_KAFKA + r"controller\.QuorumController\.replay", STATE),
    ),
    layers=_rules(
        # Not in `enclosing`: a metric's timer encloses the work of other layers.
        (_KAFKA + r"(common|server|controller)\.metrics\.|^com\.yammer\.metrics\.", METRICS),
        (_KAFKA + r"controller\.Broker(HeartbeatManager|HeartbeatTracker)|rokerHeartbeat", HEARTBEATS),
        (_KAFKA + r"common\.(message|protocol|requests|metadata|record|header)\.", WIRE),
        (_KAFKA + r"server\.common\.serialization\.", WIRE),
        (_KAFKA + r"storage\.|^kafka\.log\.|^sun\.nio\.ch\.FileChannel|" + _KAFKA + r"common\.utils\.Crc", LOG),
        (_KAFKA + r"(common\.network|clients)\.|^sun\.nio\.ch\.(?!File|IOUtil|NativeThread)", NETWORK),
        (r"^kafka\.network\.(Processor|Acceptor|Socket|Conn)", NETWORK),
        (_KAFKA + r"(raft|server\.purgatory)\.|^kafka\.raft\.", RAFT),
        (_KAFKA + r"metadata\.placement\.", DECISION),
        (_KAFKA + r"(image|timeline|metadata|metalog)\.", STATE),
        (r"^org\.apache\.zookeeper\.|^kafka\.(zk|zookeeper)\.", ZOOKEEPER),
        (_KAFKA + r"controller\.|^kafka\.controller\.", DECISION),
        (r"^kafka\.(network|server)\.|" + _KAFKA + r"(queue|server|security)\.", REQUESTS),
    ),
    events=_rules(
        (r"QuorumController\.lambda\$(\w+)\$\d+$", "decide {0}"),
        (r"^kafka\.controller\.KafkaController\.process(\w+)$", "{0}"),
        (r"QuorumController\.replay$", "replay a decision"),
        (r"QuorumController\.appendRecords$", "append"),
        (r"\$ControllerWriteEvent\.complete|\$ControllerWriteEvent\.handleException", "answer a request"),
        (r"QuorumMetaLogListener\.", "committed records"),
        (r"MetadataLoader\.|MetadataBatchLoader\.", "images and publishers"),
        (r"KafkaRaftClient\.(?:handleFetch|tryCompleteFetch|validateFetch)\w*$", "Fetch"),
        (r"KafkaRaftClient\.(?:appendBatch|maybeAppendBatches|flush\w*)$", "append to the log, flush"),
        (r"KafkaRaftClient(?:Driver)?\.\w+$", "raft's other work"),
        (r"^kafka\.server\.(?:ControllerApis|KafkaRequestHandler)\.", "take requests"),
        (r"^kafka\.network\.(?:Processor|Acceptor)", "connections"),
        (_KAFKA + r"clients\.NetworkClient\.", "requests to other nodes"),
        (r"^org\.apache\.zookeeper\.|^kafka\.zookeeper\.", "ZooKeeper's answers"),
    ),
    threads=_rules(
        (r"^(GC Thread|G1 )", GC),
        (r"^(C1|C2) Comp|^Sweeper", JIT),
        (r"^(VM |Service Thread|Signal|Reference|Finalizer|Common-Cleaner|Monitor Defl|Async-profiler|java$)", RUNTIME),
    ),
    trunk=("java.lang.Thread.run",),
    waits=(),
)
