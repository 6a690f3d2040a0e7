"""Where code that a model wrote may run: one interface, several backends."""

from agentorchestra.runtime.sandbox.base import POSITIONAL, HostCall, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.runtime.sandbox.shell import Job, Shell, ShellRan, ShellSandbox, ShellState

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
