"""The deep researcher's pipeline: queries, pages, insights, what is still missing, the report (000, app. D.3)."""
