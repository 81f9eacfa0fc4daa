"""`python -m worker.cli`: the command line where no script was installed."""

from worker.cli.main import main

if __name__ == "__main__":
    main()
