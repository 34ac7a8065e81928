"""`python -m kcore` is the command `kcore`."""

from kcore.cli import main

if __name__ == "__main__":
    main()
