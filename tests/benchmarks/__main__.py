"""`make bench`: all in one run: load, lake, splice, commits, plans, merging, Dagster."""

from __future__ import annotations

from tests.benchmarks import (
    commits,
    dagster_cost,
    exports,
    lake,
    load,
    merge_simulation,
    merges,
    splice,
)

if __name__ == "__main__":
    print("Load with proof and parts\n")
    print(load.table(load.run()))
    print("\nThe lake\n")
    lake.main()
    print("\nSpliced range export\n")
    splice.main()
    print("\nCommitting to the log of a large warehouse\n")
    commits.main()
    print("\nPlanning a range of 75,000 segments\n")
    exports.main()
    print("\nWhat compaction rewrites\n")
    merge_simulation.main()
    print()
    merges.main()
    print("\nDagster's own cost\n")
    dagster_cost.main()
