"""Files of a generation on this machine: its store, local copies, and what is lost of them."""
