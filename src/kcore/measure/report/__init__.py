"""Tools that every report uses: figures as people read them, the machine, a style sheet, charts, a page, exit codes."""
