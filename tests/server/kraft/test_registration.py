"""When a controller registers with the active one: not before it has read the log, and not below 3.7-IV0."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kcore.metadata.metadata_version import FEATURE_NAME
from kcore.server.kraft_controller.registration import Registration

NODE = 3000


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"features": {}}, False),
        ({"high_watermark": None}, False),
        ({"committed": 9}, False),
        ({"committed": 9, "is_active": True}, True),  # It has its own records before they are committed.
        ({"is_supported": False}, False),
        ({"known": "another"}, True),
        ({"known": "same"}, False),
    ],
    ids=lambda each: str(each),
)
def test_a_controller_registers_once_it_has_read_the_log(changes: dict[str, Any], expected: bool) -> None:
    given = {
        "features": {FEATURE_NAME: 25},
        "high_watermark": 10,
        "committed": 10,
        "is_active": False,
        "is_supported": True,
        "known": None,
    } | changes
    version = SimpleNamespace(controller_registration_supported=given["is_supported"])
    controller: Any = SimpleNamespace(
        image=SimpleNamespace(features=given["features"], controllers={}),
        is_active=given["is_active"],
        committed=given["committed"],
        context=SimpleNamespace(version=version),
    )
    config: Any = SimpleNamespace(node_id=NODE)
    node: Any = SimpleNamespace(high_watermark=given["high_watermark"])
    registration = Registration(config, node, controller, Random(1))
    if given["known"] is not None:
        incarnation_id = registration.incarnation_id if given["known"] == "same" else None
        controller.image.controllers[NODE] = SimpleNamespace(incarnation_id=incarnation_id)
    assert registration.is_wanted() is expected
