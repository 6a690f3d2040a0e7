"""The vocabulary of AgentOrchestra: types and protocols without side effects."""
