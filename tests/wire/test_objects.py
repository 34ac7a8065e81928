"""The object codec gives and takes what Kafka's own classes wrote."""

from typing import Any

import pytest

import kcore
from kcore.schema.structure import Struct
from wire.golden import vectors

pytestmark = pytest.mark.recorded


def unknown_fields(value: Any) -> list[list[Any]]:
    """[tag, hex] of every struct, those of the inner ones first."""
    if isinstance(value, list):
        return [pair for element in value for pair in unknown_fields(element)]
    if not isinstance(value, Struct):
        return []
    inner = [pair for name in value.__match_args__ for pair in unknown_fields(getattr(value, name))]
    return inner + [[tag, data.hex()] for tag, data in value.unknown_tagged_fields]


def test_every_vector() -> None:
    for name, case in vectors():
        data = bytes.fromhex(case["hex"])
        message = kcore.decode(name, case["version"], data)
        assert kcore.to_json(message, case["version"]) == case["json"]
        assert kcore.encode(message, case["version"]) == data
        assert sorted(unknown_fields(message)) == sorted(case.get("unknownTags", []))
        if "unknownTags" not in case:
            again = kcore.from_json(name, case["version"], case["json"])
            assert again == message
            assert kcore.encode(again, case["version"]) == data
