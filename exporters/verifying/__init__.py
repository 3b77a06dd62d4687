"""Reading an archive back and comparing everything with everything."""
