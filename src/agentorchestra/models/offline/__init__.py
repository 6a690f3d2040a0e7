"""The offline model: rules instead of a language model, for the demo, the tutorials and the tests."""
