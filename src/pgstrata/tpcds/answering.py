"""Asks DuckDB for the right answers of TPC-DS: see `pgstrata.tpc.answering`."""

import sys

from pgstrata.tpc.answering import main
from pgstrata.tpcds.schema import TPCDS

if __name__ == "__main__":
    main(TPCDS, {}, sys.argv[1:])
