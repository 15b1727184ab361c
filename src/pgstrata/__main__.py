"""`python -m pgstrata`"""

from pgstrata.cli.main import main

if __name__ == "__main__":
    main()
