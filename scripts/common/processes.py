"""Processes that work for another one."""

import os
import signal
import threading
import time


def begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the process that has the table, and end when that has ended, however it did."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
