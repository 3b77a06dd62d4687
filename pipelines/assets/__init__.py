"""The assets: the warehouse's tables, the published exports."""
