#!/usr/bin/env python
"""The gateway's command line in a clone."""

import signal

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback of modules that load
    from gateway_project.command_line import main

    main()
