"""The log of the warehouse: numbered snapshots, what they name, and what they have lost."""
