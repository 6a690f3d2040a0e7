"""The run's models at an address of its own, for programs that speak OpenAI's format."""
