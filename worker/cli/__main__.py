"""Entry point of `python -m worker.cli`, without an installed script."""

from worker.cli.main import main

if __name__ == "__main__":
    main()
