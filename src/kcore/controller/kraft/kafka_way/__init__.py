"""The code for Kafka's way where a departure from Kafka is switched back (`kraft/departures.py`).

Nothing here runs by default. `faults.py`: failures after which Kafka's controller resigns. `shadow.py`: state that
Kafka's controller has beside the image; `stale_eligible.py`: decisions by its index of ELRs;
`unreadable_settings.py`: a min.insync.replicas that is no number.
"""
