"""What every test relies on."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every process they start inherits that:
# tests that interrupt a process would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
