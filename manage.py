#!/usr/bin/env python
"""The gateway's command line in a clone."""

from gateway_project.command_line import main

if __name__ == "__main__":
    main()
