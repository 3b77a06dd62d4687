"""The server's pages as HTML. Nothing here knows HTTP."""
