"""The environment `report` (docs/reports.md): items with their references, and the report that is made of them."""
