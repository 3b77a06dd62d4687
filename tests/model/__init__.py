"""A model test of the warehouse and the archive: random commands beside plain dictionaries.

It goes by commands, files and answers only, so that it holds for whatever the files are inside.
`python -m tests.model` lets it look for faults that are seeded into a copy of the product.
"""
