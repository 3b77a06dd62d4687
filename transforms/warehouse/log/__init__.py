"""The log of the warehouse: numbered documents, what they name, and what they have lost."""
