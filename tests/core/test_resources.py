"""What a process lacks is told from errors of the system as they really come."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import resource
from agentorchestra.core.resources import shortage
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 18),) * 2)
try:
    import jiter
except (ImportError, MemoryError) as error:
    print(isinstance(error, ImportError), shortage(error))
"""


def test_a_library_that_finds_no_address_space_is_not_called_missing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True this process has too little memory (ulimit -v, or the limit of its container)"
