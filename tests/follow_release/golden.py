"""Golden bytes: Kafka's message classes and JSON converters make them, and kcore's codecs read and write them."""

import json
from collections.abc import Iterator
from typing import Final

import kcore
from controller.kraft.recorded.differences import parting
from controller.kraft.recorded.story_wire import plain
from follow_release.differences import Difference
from follow_release.facts import Json
from kcore.schema import MESSAGES
from kcore.wire.codec import decode, encode
from kcore.wire.metadata_frames import decode_metadata_record
from recorder.java_program import printed
from wire.golden import dropped_by_json, name_of, present_names, put_back, renamed

TYPES: Final = ("request", "response", "header", "metadata", "data")


def recorded(messages: Json, class_path: str) -> list[Json]:
    """Vectors of every version of every message that the release can still write, four a version."""
    chosen = [each for each in messages.values() if each["type"] in TYPES and each["class"]]
    text = printed("GoldenBytes.java", class_path, given="".join(json.dumps(each) + "\n" for each in chosen))
    return [json.loads(line) for line in text.splitlines()]


def differences(vectors: list[Json]) -> Iterator[Difference]:
    """Vectors that kcore cannot read, or reads or writes otherwise. A version that kcore lacks is one difference."""
    seen: set[Difference] = set()
    for vector in vectors:
        for each in _differences(vector):
            if each not in seen:
                seen.add(each)
                yield each


def _differences(vector: Json) -> Iterator[Difference]:
    name, version = name_of(vector), vector["version"]
    if name not in MESSAGES:
        yield Difference("kcore lacks the message", name, vector["type"])
        return
    cls = MESSAGES[name]
    if version not in cls.versions:
        yield Difference("kcore lacks the version", name, f"version {version}, kcore has {cls.versions}")
        return
    subject = f"{name} v{version}"
    data = bytes.fromhex(vector["hex"])
    try:
        message = decode(cls, version, data)
    except kcore.errors.KcoreError as error:
        yield Difference("kcore cannot read it", subject, str(error))
        return
    records, tags = dropped_by_json(message)
    if sorted(tags) != sorted(vector.get("unknownTags", [])):
        yield Difference("unknown tags differ", subject, f"kcore {tags}")
        return
    found, wanted = plain(kcore.to_json(message, version)), renamed(vector["json"], present_names(name, version))
    for path, left, right in parting(wanted, found):
        yield Difference("JSON differs", subject, f"at {path}: Kafka {left!r}, kcore {right!r}")
    if [bytes(each).hex() for each in records] != vector.get("records", []):
        yield Difference("records differ", subject, "a records field has other bytes")
    yield from _written(vector, subject, message, data)


def _written(vector: Json, subject: str, message: kcore.schema.structure.Message, data: bytes) -> Iterator[Difference]:
    name, version = name_of(vector), vector["version"]
    try:
        again = kcore.from_json(name, version, vector["json"])
        put_back(again, message)
        same = bytes(encode(again, version)) == data == bytes(encode(message, version))
    except kcore.errors.KcoreError as error:
        yield Difference("kcore cannot write it", subject, str(error))
        return
    if not same:
        yield Difference("bytes differ", subject, "kcore writes other bytes")
    if "framed" in vector:
        record, frame_version = decode_metadata_record(bytes.fromhex(vector["framed"]))
        if (record, frame_version) != (message, version):
            yield Difference("the log's frame differs", subject, f"kcore reads version {frame_version}")
