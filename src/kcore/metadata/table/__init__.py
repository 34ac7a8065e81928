"""The partition table: the state of all partitions as columns, with topics, brokers and directories by row.

Broker ids, topic ids and directory ids become rows once; all columns hold rows. Lists are packed and padded, and
`validation` has checked every value, because kernels trust the columns. A partition keeps its row until its topic is
removed; indexes follow each change. `column_list` is the only list of columns.

- `column_list`: the columns and their axes. `partition_columns`: their arrays, which grow and widen.
- `partition_rows`: rows with their index, lookup and free rows. `partition_table`: the public class.
- `partition_queries`, `partition_state`: queries on a table; one partition as an object.
- `partition_lookup`, `broker_index`, `free_rows`: where a partition, a broker's partitions and free rows are.
- `topic_table`, `broker_table`, `directory_table`: the other tables; `broker_registration` is one broker as an object.
- `broker_ids`, `uuid_index`: from ids to rows and back.
- `changes`: changes as columns; `change_sets` selects and joins them. `kraft_changes`: applies KRaft's in bulk.
- `partition_values`: changes and new topics as encoded records.
- `table_arrays`, `validation`, `arrays`, `equality`: input of a table, its checks, array helpers, comparison.
- `table_arrow`: tables and changes as Apache Arrow.
"""
