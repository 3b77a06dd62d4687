"""Files of a snapshot on this machine: its store and local copies, and the catalog over them."""
