"""The archive's page: from what is held to HTML. Nothing here knows HTTP."""
