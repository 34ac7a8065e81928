"""Brokers of the cluster: registration, heartbeats, fencing, controlled shutdown.

A broker registers and is fenced. Its heartbeats extend its session and report how far it has read the log. When it has
read its own registration, the controller unfences it, and it may lead. A broker leaves by controlled shutdown (its
leaders move, then it is fenced and may stop), because its session ended (fenced), or for good (unregistered).

The image has the broker state that is in the log; `heartbeats.py` has the rest. A record that was decided and not
written leaves no trace there that changes later decisions.

- `registration.py`: BrokerRegistration.
- `heartbeat.py`: BrokerHeartbeat, and the states of a broker; `records.py`: the records of each transition.
- `heartbeats.py`: sessions and last contacts.
- `fencing.py`: the periodic task that fences brokers whose sessions have ended.
- `nodes.py`: UnregisterBroker, ControllerRegistration, AllocateProducerIds.
"""
