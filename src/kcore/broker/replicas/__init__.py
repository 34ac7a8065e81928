"""The replicas of one broker, independent of the source of its orders.

An order (`ReplicaManager.become`, `stop`, `hold_only`) moves a replica from one role to the next by the table in
`roles.py`. Requests of clients and of followers come in through `producing.py`, `fetching.py`, `offsets.py`,
`deleting.py`, `markers.py` and `describing.py`; whoever must wait is in `waiting.py`. `fetcher.py` is the follower's
side, `isr_changes.py` what a leader asks the controller. `take_outputs` gives what the edge is to do, in order.

Invariants: at most one log a partition; nothing is answered before what it says is in the log; the high watermark
rises only as far as every member of the ISR has the records; a change of the ISR counts for commits before it is
granted if it adds members, after it if it removes some (KIP-497).
"""
