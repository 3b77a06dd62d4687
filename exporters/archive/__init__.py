"""The archive as it lies in a store: entries, index, revisions and the pages that follow."""
