"""What a load leaves on record of a run of segments: receipts, shapes and the data files."""
