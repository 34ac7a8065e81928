"""`kcore whatif`: what the loss of brokers, racks or log directories would do to a cluster.

`whatif_command` reads the options and the cluster, and `whatif_size` scales it. `whatif_answers` makes the rows and
tables of a question. `whatif_page` writes the report with its heat map and its map of racks.
"""
