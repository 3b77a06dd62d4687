"""ZIPs and their parts as bytes: written, read back, laid out, waiting to be published."""
