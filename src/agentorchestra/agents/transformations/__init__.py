"""The transformations that take or give an agent: A2T, T2A, A2E, E2A (000, app. A.2, C.3)."""
