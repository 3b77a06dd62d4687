"""Facts of tables: their columns at each schema version, types, meanings, CSV form. No I/O."""
