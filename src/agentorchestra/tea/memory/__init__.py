"""Memory systems (000, app. C.1, "Memory Manager"; 004, sec. 3.2.2): docs/memory.md."""
