"""Brokers of the cluster: registration, heartbeats, fencing, controlled shutdown.

A broker registers and is fenced. Its heartbeats keep its session and say how far it has read the log; once that is
behind its own registration, it is unfenced and may lead. It leaves by its own wish (controlled shutdown: leaders first,
then it is fenced and told that it may stop), or because its session ended (fenced), or for good (unregistered).

What the log says of a broker is in the image; what it does not say is in `heartbeats.py`. A record that was decided and
not written leaves no trace there that would change what is decided next.

- `registration.py`: BrokerRegistration; `listeners.py` and `epochs.py` help.
- `heartbeat.py`: BrokerHeartbeat, and the states of a broker; `records.py`: what each move writes.
- `fencing.py`: the periodic look for sessions that are over.
- `nodes.py`: UnregisterBroker, ControllerRegistration; `producer_ids.py`: AllocateProducerIds.
- `broker_handlers.py`: request -> function.
"""
