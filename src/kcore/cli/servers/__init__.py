"""Commands that run servers, format their directories, and ask a quorum about its state.

In ZooKeeper mode: `controller_command`, `broker_command`. In KRaft mode: `kraft_format` and `kraft_run` for a
controller, `broker_kraft_format` and `broker_kraft_run` for a broker. For a quorum: `quorum_format`, `quorum_serve`,
`quorum_wait`, and `quorum_describe` with `quorum_tables`. All servers run by `server_process`.
"""
