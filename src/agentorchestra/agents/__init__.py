"""Specialised agents."""
