"""The HTTP shell: routes, parameters, answers, downloads, streams, pages."""
