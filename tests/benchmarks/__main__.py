"""`make bench`: every measurement in one run: load, splice, Dagster's own cost."""

from __future__ import annotations

from tests.benchmarks import dagster_cost, load, splice

if __name__ == "__main__":
    print("Load with proof and parts\n")
    print(load.table(load.run()))
    print("\nSpliced range export\n")
    splice.main()
    print("\nDagster's own cost\n")
    dagster_cost.main()
