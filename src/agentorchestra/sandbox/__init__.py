"""Sandboxes for code that a model wrote: one interface, several backends."""

from agentorchestra.sandbox.base import POSITIONAL, HostCall, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox.shell import Job, Picture, ScreenLook, Shell, ShellRan, ShellSandbox, ShellState

__all__ = [
    "POSITIONAL",
    "HostCall",
    "Job",
    "Picture",
    "Program",
    "Ran",
    "Sandbox",
    "SandboxLimits",
    "ScreenLook",
    "Shell",
    "ShellRan",
    "ShellSandbox",
    "ShellState",
]
