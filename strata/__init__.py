"""Strata: a trading network's history in notebooks and programs."""
