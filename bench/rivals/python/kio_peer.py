"""The Python peer: Aiven's kio, whose reader is Rust and whose writer is Python."""

import dataclasses
import io
from importlib import import_module
from pathlib import Path
from typing import Any

from kio.serial import entity_reader, entity_writer
from peer import Case, serve

MODULES = {"LeaderAndIsrRequest": "leader_and_isr", "UpdateMetadataRequest": "update_metadata"}
FURTHER_BROKER_EPOCH = 381


class Codec(Case):
    """decode, encode and the like of one request."""

    def __init__(self, operation: str, message: str, version: int, data: bytes) -> None:
        type_ = getattr(import_module(f"kio.schema.{MODULES[message]}.v{version}.request"), message)
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


def make(name: str, directory: Path) -> Case | None:
    words = name.split(":")
    if len(words) != 4:
        return None
    operation, message, version, shape = words
    return Codec(operation, message, int(version), (directory / f"{message}.{version}.{shape}.bin").read_bytes())


if __name__ == "__main__":
    serve(make)
