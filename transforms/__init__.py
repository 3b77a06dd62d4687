"""Segments and the warehouse made of them: table facts, segment files, volumes, catalog."""
