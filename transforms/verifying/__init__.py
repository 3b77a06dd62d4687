"""What the checks of a warehouse and of an archive share: findings, counts, what was proven."""
