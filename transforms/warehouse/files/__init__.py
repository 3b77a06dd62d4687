"""Files of a snapshot on this machine: its store, local copies, and what is lost of them."""
