"""Attacks and ordinary tasks against a model that obeys everything: `benchmarks/injection` runs them, the tests too."""
