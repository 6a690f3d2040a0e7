"""`python -m agentorchestra.cli` is the command `agentorchestra`."""

import sys

from agentorchestra.cli import main

if __name__ == "__main__":
    sys.exit(main())
