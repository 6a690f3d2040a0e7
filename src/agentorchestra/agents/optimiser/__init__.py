"""The common ground of optimisers: evidence and variables as JSON, constraints by code, a text that is asked anew."""
