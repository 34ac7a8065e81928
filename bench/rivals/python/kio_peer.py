"""The Python peer: Aiven's kio, whose reader is Rust and whose writer is Python."""

import dataclasses
import io
import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from kio.serial import entity_reader, entity_writer
from peer import REPEATS, Case, Message, read_lists, serve

FURTHER_BROKER_EPOCH = 381


class Codec(Case):
    """decode, encode and the like of one request."""

    def __init__(self, operation: str, type_: type[Any], data: bytes) -> None:
        self.operation, self.data = operation.removesuffix("_nogc"), data
        self.gc_off = operation.endswith("_nogc")
        self.read, self.write = entity_reader(type_), entity_writer(type_)
        self.reused = io.BytesIO(bytes(len(data)))
        if operation != "memory":
            self.decoded = self.keep()
            self.partitions = sum(len(topic.partition_states) for topic in self.decoded.topic_states)

    def keep(self) -> Any:
        return self.read(self.data, 0)[0]

    def run(self, round_: int) -> int:
        if self.operation == "decode":
            self.keep()
        elif self.operation == "read":
            read_lists(self.keep())
        elif self.operation == "encode_fresh":
            self.write(io.BytesIO(), self.decoded)
        else:
            if self.operation == "fanout":
                self.decoded = dataclasses.replace(self.decoded, broker_epoch=FURTHER_BROKER_EPOCH)
            self.reused.seek(0)
            self.write(self.reused, self.decoded)
        return self.partitions

    def check(self) -> bytes:
        if self.operation in ("encode", "fanout"):
            self.run(0)
            return self.reused.getvalue()
        out = io.BytesIO()
        self.write(out, self.keep())
        return out.getvalue()


def message(operation: str, type_: type[Any], shape: str, data: bytes) -> Message:
    """decode or encode of one case of the group `messages`."""
    read, write, out = entity_reader(type_), entity_writer(type_), io.BytesIO(bytes(len(data)))
    decoded = read(data, 0)[0]

    def encode() -> None:
        out.seek(0)
        write(out, decoded)

    def result() -> bytes:
        encode()
        return out.getvalue()

    return Message(shape, partial(read, data, 0) if operation == "decode" else encode, result)


def type_of(api: str, version: str) -> type[Any] | None:
    """FetchResponse 18 is kio.schema.fetch.v18.response.FetchResponse, if this kio has it."""
    *words, kind = re.findall("[A-Z][a-z]*", api)
    try:
        module = import_module(f"kio.schema.{'_'.join(words)}.v{version}.{kind}".lower())
    except ModuleNotFoundError:
        return None
    found: type[Any] = getattr(module, api)
    return found


def make(name: str, directory: Path) -> Case | None:
    words = name.split(":")
    if len(words) != 4:
        return None
    operation, api, version, shape = words
    type_ = type_of(api, version)
    if type_ is None:
        return None
    data = (directory / f"{api}.{version}.{shape}.bin").read_bytes()
    return message(operation, type_, shape, data) if shape in REPEATS else Codec(operation, type_, data)


if __name__ == "__main__":
    serve(make)
