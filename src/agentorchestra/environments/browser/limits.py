"""Limits of the browser, of one call up to all runs."""

CALL_S = 10.0  # seconds a call on a page has. What takes longer is stopped, closed or killed, in this order.
DOWNLOAD_S = 120.0  # seconds a download may take
MOST_TABS = 20  # that a run may have open at the same time; pages that open more of them are closed
LOOKS = 3  # snapshots and pictures taken at the same time, over all runs; waiting costs no time
