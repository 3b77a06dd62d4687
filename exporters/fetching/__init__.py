"""Getting published ZIPs from an archive, wherever it lies, and proving what arrived."""
