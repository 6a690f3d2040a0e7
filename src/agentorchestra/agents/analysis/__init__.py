"""The parts of the deep analyzer, and the tool `analyze_file` that every agent may have."""
