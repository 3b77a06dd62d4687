"""One module per command of `strata`; `options` holds what they share on the command line."""
