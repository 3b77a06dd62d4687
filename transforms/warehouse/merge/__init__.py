"""What keeps a warehouse small: neighbouring runs are merged, and what nobody needs is deleted."""
