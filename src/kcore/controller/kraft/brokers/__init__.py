"""Brokers of the cluster: registration, heartbeats, fencing, controlled shutdown.

A broker registers and is fenced. Its heartbeats extend its session and report how far it has read the log. When it has
read its own registration, the controller unfences it, and it may lead. A broker leaves in one of three ways. In a
controlled shutdown its leaders move, then it is fenced and may stop. If its session ends, it is fenced. If it is
unregistered, its registration is removed.

The image has the broker state that is in the log; `heartbeats.py` has the rest. A record that was decided but not
written does not influence later decisions through `heartbeats.py`.

- `registration.py`: BrokerRegistration. A new incarnation is fenced at first.
- `heartbeat.py` decides about one request, BrokerHeartbeat: the broker's next state. It fences a broker that asks for
  this, and a broker at the end of its controlled shutdown.
- `heartbeats.py` has the state between requests: the sessions of all brokers, and their last contacts. When the active
  controller writes records of brokers, `controller/kraft/writing.py` updates this state.
- `fencing.py`: the task that fences brokers whose sessions have ended; `controller/kraft/periodic.py` schedules it.
- `records.py`: the records of each transition. `replication/kraft_events.py` decides the changes of the partitions.
- `nodes.py`: UnregisterBroker, ControllerRegistration, UnregisterController, AllocateProducerIds.

`controller/kraft/log_lines.py` writes a line to the operator's log for each broker that is fenced, with the reason. The
image applies the records (`metadata/image/image_brokers.py`). Brokers learn of them from the metadata log
(`broker/metadata_delta/publisher.py`). `server/kraft_controller/heartbeat_feed.py` takes the heartbeats of a changed
broker back from the answer loop.
"""
