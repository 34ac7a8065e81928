from kcore.types import Int8s, Int32s, Int64s, UInt8s

def parse_states(
    text: UInt8s,
    begins__c: Int64s,
    ends__c: Int64s,
    values__fc: Int32s,
    recovery__c: Int8s,
    offsets__c: Int32s,
    isr__i: Int32s,
    is_read__c: UInt8s,
) -> None:
    """Read the JSON states `text[begins__c[c]:ends__c[c]]`. `values__fc`: leaders, leader epochs, controller epochs.

    A state in another form than Kafka writes is not read: its ISR stays empty, and `is_read__c` is 0. ValueError for
    columns of different lengths, or begins and ends outside the text.
    """

def state_bytes(states: int, members: int) -> int:
    """The most bytes of the JSON of `states` states with `members` ISR members in total."""

def write_states(
    leaders__c: Int32s,
    leader_epochs__c: Int32s,
    isr_offsets__c: Int32s,
    isr__i: Int32s,
    recovery__c: Int8s,
    controller_epoch: int,
    out: UInt8s,
    offsets__c: Int64s,
) -> None:
    """Write the JSON of state c to `out[offsets__c[c]:offsets__c[c + 1]]`. ValueError for columns of wrong lengths."""

def write_paths(
    names: UInt8s,
    names_offsets__t: Int64s,
    topics__c: Int32s,
    partitions__c: Int32s,
    prefix: UInt8s | bytes,
    suffix: UInt8s | bytes,
    out: UInt8s,
    offsets__c: Int64s,
) -> None:
    """Write path c to `out[offsets__c[c]:offsets__c[c + 1]]`: prefix, topic, /partitions/, number, suffix."""
