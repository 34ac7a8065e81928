"""Options that several commands share, each in a module of its name, and the checks of their values.

Commands that measure have `bench_options`, `storm_options`, `target_options`, `sim_options` and `compare_options`;
`spark_options` also starts Spark, and `whatif_options` are of `whatif`. Servers have `release_option`,
`metrics_option`, `audit_option`, `set_aside_option`, `files_option`, `answer_loop_option`; `properties_option` reads
server.properties. Clients have `command_config`, formatting has `scram_option`, and `finite` checks numbers.
"""
