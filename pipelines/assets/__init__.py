"""The assets, one module per place: the warehouse's tables, the archive's exports."""
