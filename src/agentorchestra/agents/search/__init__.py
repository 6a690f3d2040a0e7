"""Search: queries, looked at again and spread, and the pages they find."""
