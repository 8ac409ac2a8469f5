"""`python -m eigentime_report`."""

from .cli import main

if __name__ == "__main__":
    main()
