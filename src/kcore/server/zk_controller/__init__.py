"""The server of the ZooKeeper-mode controller: performs the effects of `kcore.controller.zk`.

Requests, watches of ZooKeeper, timers and responses of brokers become events in one queue. The server takes one event
at a time, gives it to `ActiveController.handle`, and performs the effects that the handler yields.

Invariants: a loss of the session is handled before the events of that session. Every write to ZooKeeper is fenced by
/controller_epoch. Every request is answered once.

In reading order:
- zk_controller_server: the process; it joins the other modules.
- event_queue, event_manager: the queue of events, and the loop that takes them. periodic_events: events at intervals.
- effect_performer: runs the handlers, and performs their effects.
- election: stands for election, and resigns. controlled_cluster: the cluster as clients see it.
- eligibility: the checks before a controller takes over a cluster; who holds /controller.
- broker_channel: sends control requests to brokers, retries them, and makes events of the responses.
- zk_controller_request_handlers: the requests that clients and brokers send to the controller.
- zk_controller_authorization: removes the items of a request that its client has no rights to.
- document_requests: requests of KIP-590's document, which brokers proxy.
- zk_controller_listener_settings: the listener, and the security of connections to brokers.
- zk_controller_metrics, zk_controller_metric_families: the figures, and their form on the metrics page.
"""
