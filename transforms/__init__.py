"""The domain: segments, table schemas, source, conform, render, proof, volumes, catalog."""
