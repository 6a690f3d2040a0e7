"""Reading the web: one client for everything this process asks of it, and `fetch`."""
