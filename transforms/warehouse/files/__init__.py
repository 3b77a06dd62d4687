"""Files of a snapshot on this machine: its store, local copies, and what of all that is lost."""
