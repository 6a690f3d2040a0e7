"""What the deep analyzer is made of, and the tool `analyze_file` that every agent may have."""
