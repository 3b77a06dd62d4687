"""Signatures of published documents, in the format of minisign; nothing of the server's."""
