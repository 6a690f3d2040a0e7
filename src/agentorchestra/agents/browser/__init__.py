"""The browser use agent."""
