"""Commands that read files and bytes, each in a module of its name.

`image_command` summarises a cluster, `dump_command` shows a log, `diverge_command` compares replicas,
`messages_command` lists Kafka's messages, and `codec_command` has `decode` and `encode`. `cluster_file` reads the
cluster of a log, a snapshot or a dump.
"""
