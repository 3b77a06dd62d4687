"""The warehouse: volumes of typed tables, the catalog over them, loading and rendering."""
