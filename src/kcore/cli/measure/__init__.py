"""Commands that measure, each in the module of its name, and the parts that they share.

`bench_command` (with `bench_storm`), `bench_quorum_command`, `designs_command`, `storm_command` (with
`measured_storm`), `rivals_command`, `compare_command`, `sim_command` (with `sim_page`), `top_command` (with
`top_view`), `spark_archive_command`. `results_folder` checks the folder of their results,
`result_stores` the stores of `--table` and of a URI at `--out`.
"""
