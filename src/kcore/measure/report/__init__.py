"""Tools that every report uses.

`units.py` writes figures as people read them. `machine.py` describes the machine, `build.py` the software of a
target, `own_code.py` the code of kcore itself, `noise.py` and `host_speeds.py` say how far a figure can be trusted.
`result_files.py` reads and writes results, `earlier.py` finds those of earlier runs, and `figure_history.py` compares
them. `uri_folder.py` has a folder at a URI, `result_table.py` a table of many runs there. `report_page.py` has the
parts of a page, with `style.py`, `script.py` and the colours of `palette.py`. `svg.py` draws; `charts.py` and
`dots.py` have the kinds of charts. `markdown.py` writes tables for pull requests, and `exits.py` has the exit codes.
"""
