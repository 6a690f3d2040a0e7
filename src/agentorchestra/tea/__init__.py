"""Components: tools and prompts for now; one generic registry with kinds comes on top of them."""
