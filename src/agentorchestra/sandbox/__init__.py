"""Sandboxes for code that a model wrote: one interface, several backends."""

from agentorchestra.sandbox.base import POSITIONAL, HostCall, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox.shell import Job, Shell, ShellRan, ShellSandbox, ShellState

__all__ = [
    "POSITIONAL",
    "HostCall",
    "Job",
    "Program",
    "Ran",
    "Sandbox",
    "SandboxLimits",
    "Shell",
    "ShellRan",
    "ShellSandbox",
    "ShellState",
]
