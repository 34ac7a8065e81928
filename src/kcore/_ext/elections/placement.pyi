from kcore.types import Int32s

def place_shifted(
    replicas__ps: Int32s,
    brokers__b: Int32s,
    racks__b: Int32s,
    broker_taken_by__b: Int32s,
    rack_taken_by__r: Int32s,
    start: int,
    shift: int,
    start_partition: int,
) -> None: ...
def place_striped(
    replicas__ps: Int32s,
    brokers__b: Int32s,
    list_starts__l: Int32s,
    offsets__l: Int32s,
    taken__l: Int32s,
    epochs__l: Int32s,
    rack_order__r: Int32s,
    shuffle_order__r: Int32s,
    unfenced: int,
    offset: int,
    random_state: int,
) -> int:
    """Place stripes over racks (StripedReplicaPlacer); returns the state of the random sequence afterwards."""
