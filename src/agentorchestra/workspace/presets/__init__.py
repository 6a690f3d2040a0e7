"""Presets: settings with the limits that a paper states, under everything that the user sets."""

from agentorchestra.workspace.presets.base import NO_PRESET, Preset, Row, find_preset, merged, preset_names, with_preset

__all__ = ["NO_PRESET", "Preset", "Row", "find_preset", "merged", "preset_names", "with_preset"]
