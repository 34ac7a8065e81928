"""Changed bytes for the kernels that read no messages: each decides as its slow twin in tests/reference does.

ZooKeeper's answers (jute), JSON of partition states, streams of frames, records of producers, logs of metadata records,
and heartbeats for the answer loop. Rounds of these inputs have numbers from `KERNELS` on.
"""

import random
import select
import socket
import zlib
from functools import cache
from typing import Any

import numpy as np
from fuzz_inputs import BATCH_HEADER, Input, Seed, batches, changed, numbers
from kazoo.protocol.states import ZnodeStat

from answer_loop.stand import BEAT, Running, answer_frame, heartbeat_frame, places_of
from kcore._ext import records as records_kernel
from kcore._ext.wire.framing import Splitter
from kcore.errors import DecodeError, FrameError, TableError, ZookeeperError
from kcore.metadata.image import replay as bulk
from kcore.metadata.image.image import ClusterImage
from kcore.metadata.zookeeper.znode_states import decode_states
from kcore.wire.record_building import CODECS, encode_records
from kcore.wire.records import Record, decode_records
from kcore.zookeeper.operations import results_of
from metadata.stories import TIME_MS, Story
from reference import framing, jute, log_validator, replay, znodes

KERNELS = 1 << 32  # The first round of these inputs.
# Taken in turn. Slow kinds are rarer: a log is replayed twice, and the front has its own thread.
KERNEL_KINDS = ("jute", "states", "split", "jute", "records", "states", "split", "jute") * 7 + (
    *("jute", "states", "split", "jute", "records", "states", "replay", "front"),
)
SEEDS = 64  # For each kind without recorded inputs.
MOST_FRAME = 1_000
BASE = 1_700_000_000_000
RULES: dict[str, Any] = {
    "base_timestamp": BASE, "append_time": None, "is_compacted": False, "window": None, "most_of_record": 2**31 - 9,
}  # fmt: skip
VALUES = 12  # In a log.
BEATS = 3
KNOWN_OFFSET = 3


def kernel_input_of(round_: int, index: int) -> Input:
    """As `fuzz_inputs.input_of`."""
    dice, kind = numbers(round_)[index], KERNEL_KINDS[index % len(KERNEL_KINDS)]
    seeds = SEEDS_OF[kind]()
    seed, other = seeds[dice[0] % len(seeds)], seeds[dice[1] % len(seeds)].data
    if kind == "split":
        return Input(kind, seed.name, dice[3] % 40, changed(dice[2:], seed.data, other))
    return Input(kind, seed.name, seed.version, changed(dice[2:], seed.data, other))


# ZooKeeper's answers.


@cache
def answers() -> list[Seed]:
    """The version is how many operations were asked."""
    dice = random.Random(0)

    def number(bits: int) -> int:
        return dice.choice([-1, 0, 1, 7, dice.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))])

    def part() -> tuple[int, Any]:
        stat = ZnodeStat(*(number(bits) for bits in (64, 64, 64, 64, 32, 32, 32, 64, 32, 32, 64)))
        kind = dice.choice([-1, 1, 2, 4, 4, 5, 13])
        value = {-1: dice.choice([0, -2, -101, -110]), 1: b"/a/b", 4: (dice.choice([None, b"", b"{}"]), stat), 5: stat}
        return kind, value.get(kind)

    counts = [dice.randrange(1, 6) for _ in range(SEEDS)]
    return [Seed("multi", count, jute.answer([part() for _ in range(count)])) for count in counts]


def read_jute(given: Input) -> str:
    data, count = given.data, given.version
    try:
        wanted = jute.results(data, 0)
    except Exception:  # kazoo has no error of its own for bytes that are no answer.
        wanted = None
    try:
        results = results_of(data, 0, count)
    except ZookeeperError:
        assert wanted is None or len(wanted) != count
        return "no answer"
    assert wanted is not None and len(wanted) == count
    assert (results.data >= 0).all() and (results.data <= len(data)).all()
    for row, (error, read, stat) in enumerate(wanted):
        begin, end = results.data[:, row].tolist()
        result = int(results.errors[row]), data[begin:end], int(results.versions[row]), results.zxids[:, row].tolist()
        assert result == (error, read, *((stat.version, [stat.czxid, stat.ephemeralOwner]) if stat else (-1, [-1, -1])))
    return "read"


# States of partitions.


@cache
def states() -> list[Seed]:
    dice, made = random.Random(0), []
    for k in range(SEEDS):
        isr = dice.sample(range(2000), dice.randrange(6))
        text = znodes.text_of(znodes.State(dice.randrange(-1, 99), k, dice.randrange(2**31), k % 2, isr))
        made.append(Seed("state", 0, text.replace(b",", b" , ") if k % 4 == 0 else text))
    return made


def read_states(given: Input) -> str:
    wanted, data = znodes.state_of(given.data), given.data
    try:
        columns = decode_states(data, np.array([0]), np.array([len(data)]), str)
    except TableError:
        assert wanted is None
        return "no state"
    result = (columns.leaders[0], columns.leader_epochs[0], columns.controller_epochs[0], columns.recovery[0])
    assert wanted == znodes.State(*map(int, result), columns.isr.tolist())
    return "read"


# Frames of a stream.


@cache
def streams() -> list[Seed]:
    dice = random.Random(0)
    bodies = [[dice.randbytes(dice.choice([0, 1, 9, 300])) for _ in range(dice.randrange(1, 6))] for _ in range(SEEDS)]
    return [Seed("stream", 0, b"".join(len(body).to_bytes(4) + body for body in many)) for many in bodies]


def read_split(given: Input) -> str:
    """The version is how many bytes come at a time; 0: all of them."""
    wanted: list[bytes] = []
    outcome = "read"
    try:
        wanted.extend(framing.frames(given.data, MOST_FRAME))
    except ValueError:
        outcome = "a size that is out of bounds"
    splitter, found, at = Splitter(MOST_FRAME, FrameError), [], 0
    try:
        while at < len(given.data):
            room = splitter.get_buffer()
            piece = given.data[at : at + min(len(room), given.version or len(given.data))]
            room[: len(piece)] = piece
            splitter.received(len(piece))
            at += len(piece)
            while (frame := splitter.next_frame()) is not None:
                found.append(frame)
    except FrameError:
        assert outcome != "read"
    else:
        assert outcome == "read"
    assert found == wanted
    return outcome


# Records of producers.


@cache
def producers() -> list[Seed]:
    """The records of batches that are not compressed, as they lie; the version is how many a batch has."""
    plain = [seed.data for seed in batches() if seed.name == "none"]
    ends = [int.from_bytes(data[8:12]) + 12 for data in plain]
    counts = [int.from_bytes(data[57:61]) for data in plain]
    made = [(count, data[BATCH_HEADER:end]) for count, data, end in zip(counts, plain, ends, strict=True)]
    return [Seed(codec, count, data) for count, data in made if 0 < count < 50 for codec in ("none", "gzip")]


def read_records(given: Input) -> str:
    outcome = ""
    for is_kept in (True, False):
        payload = zlib.compress(given.data, 1, 31) if given.name == "gzip" else given.data
        target = None if is_kept else (0, None, 1 << 20)
        codec, count = CODECS.index(given.name), given.version
        refusal, errors, first, largest, rebuilt = records_kernel.validate(
            payload, count, codec, **RULES, target=target, budget=1 << 20
        )
        result = log_validator.validate(given.data, count, given.name == "gzip", is_kept, RULES)
        assert (refusal and refusal[0]) == result.refusal, (refusal, is_kept)
        if refusal is None:
            assert (errors, first, largest) == (result.errors, result.first_timestamp, result.max_timestamp)
            assert rebuilt == result.rebuilt
            outcome = "read"
    return outcome or "refused"


# Logs of metadata records.


@cache
def logs() -> list[tuple[bytes, ...]]:
    """The first records of a cluster's life, each framed."""
    return [tuple(Story(random.Random(k)).values(VALUES)[:VALUES]) for k in range(SEEDS)]


@cache
def values() -> list[Seed]:
    """One record each; the version is the log that it is in, the name its place there."""
    return [Seed(str(at), log, data) for log, many in enumerate(logs()) for at, data in enumerate(many)]


def read_replay(given: Input) -> str:
    many = list(logs()[given.version])
    many[int(given.name)] = given.data
    rows = [Record(k, TIME_MS, None, value) for k, value in enumerate(many)]
    log = decode_records(encode_records(rows))
    outcomes: list[Any] = []
    for apply in (bulk.replay, replay.replay):
        image = ClusterImage()
        try:
            apply(image, log)
            outcomes.append(image)
        except (DecodeError, TableError) as error:
            outcomes.append((type(error).__name__, str(error), getattr(error, "offset", None)))
    assert outcomes[0] == outcomes[1]
    return "read" if isinstance(outcomes[0], ClusterImage) else outcomes[0][0]


# Heartbeats of brokers at the answer loop.


@cache
def beats() -> list[Seed]:
    made = []
    for k in range(SEEDS):
        frames = [heartbeat_frame(k % 2, KNOWN_OFFSET + k * each, correlation_id=each) for each in range(BEATS)]
        made.append(Seed("heartbeats", k % 2, b"".join(frames)))
    return made


@cache
def front() -> Running:
    """One for the process: its thread goes on."""
    running = Running("rust").__enter__()
    running.loop.lead(1, 0)
    return running  # type: ignore[no-any-return]


def wanted_of(pattern: bytes, stream: bytes) -> tuple[bytes, bytes | None]:
    """The answers, and what is handed back with the connection; None: it has been taken to its end."""
    answers, known = b"", KNOWN_OFFSET
    [of_id, of_offset] = places_of(pattern, ("correlation_id", "current_metadata_offset"))
    for at in range(0, len(stream) + 1, len(pattern)):
        frame = stream[at : at + len(pattern)]
        alike = bytearray(frame)
        alike[of_id : of_id + 4] = pattern[of_id : of_id + 4]
        alike[of_offset : of_offset + 8] = pattern[of_offset : of_offset + 8]
        offset = int.from_bytes(frame[of_offset : of_offset + 8], signed=True)
        if len(frame) < len(pattern) and not (len(frame) >= 4 and frame[:4] != pattern[:4]):
            return answers, None
        if alike != pattern or offset < known:
            return answers, stream[at:]
        known = offset
        answers += answer_frame(BEAT, pattern[7], int.from_bytes(frame[of_id : of_id + 4], signed=True))
    raise AssertionError


def read_by_answer_loop(given: Input) -> str:
    running, pattern = front(), heartbeat_frame(given.version, KNOWN_OFFSET)
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(10)
        ours.sendall(given.data)
        ours.shutdown(socket.SHUT_WR)
        running.adopt_heartbeats(theirs, pattern, answer_frame(BEAT, given.version, 0x01020304))
        select.select([running.loop.fileno()], [], [], 10)
        [(_, descriptor, received, unsent, why, _)] = running.loop.drain()
        answers, left = wanted_of(pattern, given.data)
        if left is None:
            assert (descriptor, why) == (-1, "eof")
        else:
            assert (why, unsent) == ("", b"")
            with socket.socket(fileno=descriptor) as again:
                assert received + again.recv(1 << 16) == left
        answered = b""
        while piece := ours.recv(1 << 16):
            answered += piece
        assert answered == answers
    return "read" if left is None else "handed back"


SEEDS_OF = {
    "jute": answers,
    "states": states,
    "split": streams,
    "records": producers,
    "replay": values,
    "front": beats,
}
KERNEL_READERS = {
    "jute": read_jute,
    "states": read_states,
    "split": read_split,
    "records": read_records,
    "replay": read_replay,
    "front": read_by_answer_loop,
}
