"""Images are equal regardless of orders without meaning."""

from dataclasses import replace

from kcore.metadata.image.image import ClusterImage
from kcore.metadata.table.broker_registration import BrokerRegistration, Endpoint
from kcore.schema.metadata_records_brokers import ControllerEndpoint, ControllerFeature, RegisterControllerRecord
from kcore.types import Uuid

LISTENERS = (Endpoint(9092, "a", "PLAINTEXT", 0), Endpoint(9093, "a", "SSL", 1))
DIRECTORIES = (Uuid(bytes([1] * 16)), Uuid(bytes([2] * 16)))
BROKER = BrokerRegistration(
    1, 5, listeners=LISTENERS, directories=DIRECTORIES, cordoned_directories=DIRECTORIES, rack="r"
)


def image_of(broker: BrokerRegistration) -> ClusterImage:
    image = ClusterImage()
    image.brokers.put(broker)
    return image


def test_the_order_of_a_brokers_listeners_and_directories_has_no_meaning() -> None:
    for name in ("listeners", "directories", "cordoned_directories"):
        other = replace(BROKER, **{name: getattr(BROKER, name)[::-1]})
        assert other == BROKER and image_of(other) == image_of(BROKER)


def test_each_field_of_a_registration_counts() -> None:
    others = {
        "id": 2,
        "epoch": 6,
        "incarnation_id": DIRECTORIES[0],
        "listeners": (LISTENERS[0], LISTENERS[1]._replace(port=1)),
        "supported_features": {"a": (0, 1)},
        "rack": None,
        "fenced": True,
        "in_controlled_shutdown": True,
        "is_migrating_zk_broker": True,
        "directories": DIRECTORIES[:1],
        "cordoned_directories": None,
    }
    assert others.keys() == {*BrokerRegistration.__dataclass_fields__}
    for name, value in others.items():
        other = replace(BROKER, **{name: value})
        assert other != BROKER and image_of(other) != image_of(BROKER), name


def test_the_order_of_a_controllers_endpoints_and_features_has_no_meaning() -> None:
    endpoints = [ControllerEndpoint(name=name, host="a", port=1, security_protocol=0) for name in ("A", "B")]
    features = [ControllerFeature(name=name, min_supported_version=0, max_supported_version=1) for name in ("a", "b")]
    record = RegisterControllerRecord(
        controller_id=1, incarnation_id=Uuid(), zk_migration_ready=False, end_points=endpoints, features=features
    )
    turned = RegisterControllerRecord(
        controller_id=1,
        incarnation_id=Uuid(),
        zk_migration_ready=False,
        end_points=endpoints[::-1],
        features=features[::-1],
    )
    other = RegisterControllerRecord(
        controller_id=1, incarnation_id=Uuid(), zk_migration_ready=False, end_points=endpoints[:1], features=features
    )
    images = []
    for each in (record, turned, other):
        images.append(ClusterImage())
        images[-1].apply(each)
    assert images[0] == images[1] and images[0] != images[2]
