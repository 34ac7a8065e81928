"""A broker of a KRaft cluster as a process.

The observer of the metadata quorum applies committed records to an image. `ImageFollower` applies each new image to
settings, log directories and replicas, in this order. Registrations and heartbeats go to the active controller.

- `kraft_broker_settings.py`: reads server.properties.
- `kraft_broker_server.py`: the process; it joins the other modules.
- `kraft_link.py`: the link to the controllers. `image_follower.py`: applies images.
- `kraft_broker_request_handlers.py`: the requests that only KRaft brokers answer.
- `metadata_observer.py`: the broker's node in the quorum, and its snapshots.
- `lifecycle_tasks.py`: sends registrations and heartbeats. `timed_requests.py`: one request and one deadline.
- `directory_tasks.py`: performs the operations on log directories, and reports their failures.
- `kraft_configs.py`: settings of topics, and cordoned directories.
- `kraft_broker_metric_families.py`: the metrics.

Invariants: replicas follow the image only after it has this incarnation's registration. The broker asks to be unfenced
only after its replicas are in the state of the image.
"""
