"""What bad luck does to Strata: `python -m tests.faults`, in short form in the gate.

Every try runs a command in a child of a process that has imported everything, so that it costs no
start; the library in `preload.c` makes one of its file operations fail, or kills it there.
"""
