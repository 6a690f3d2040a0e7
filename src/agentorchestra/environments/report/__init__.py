"""The environment `report` (docs/reports.md): items with their references, and the report that is made of them."""

REPORT = "report"  # its name: an agent that adds to it has it among its environments
