"""One module per kind of record: from a request to records. Nothing here knows HTTP or gRPC."""
