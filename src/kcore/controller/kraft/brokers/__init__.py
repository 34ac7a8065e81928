"""Brokers of the cluster: registration, heartbeats, fencing, controlled shutdown.

A broker registers and is fenced. Its heartbeats extend its session and report how far it has read the log. When it has
read its own registration, the controller unfences it, and it may lead. A broker leaves in one of three ways. In a
controlled shutdown its leaders move, then it is fenced and may stop. If its session ends, it is fenced. If it is
unregistered, its registration is removed.

The image has the broker state that is in the log; `heartbeats.py` has the rest. A record that was decided but not
written does not influence later decisions through `heartbeats.py`.

- `registration.py`: BrokerRegistration.
- `heartbeat.py`: BrokerHeartbeat, and the states of a broker; `records.py`: the records of each transition.
- `heartbeats.py`: sessions and last contacts.
- `fencing.py`: the periodic task that fences brokers whose sessions have ended.
- `nodes.py`: UnregisterBroker, ControllerRegistration, AllocateProducerIds.
"""
