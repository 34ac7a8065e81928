"""Makes the controller decide as Kafka's does, for departures that are switched back (`kraft/departures.py`).

By default none of this code runs. `faults.py`: failures after which Kafka's controller resigns. `shadow.py`: the state
of Kafka's controller that the image does not have. `stale_eligible.py`: changes from stale entries in Kafka's index of
ELRs. `unreadable_settings.py`: elections with a min.insync.replicas that is not a number.
"""
