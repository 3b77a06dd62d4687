"""The archive as it lies in a store: entries, index, ledger and the pages that follow."""
