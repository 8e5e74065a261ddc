"""Worker processes."""

import os
import signal
import threading
import time


def begin_worker(parent: int) -> None:
    """Start a worker: ignore Ctrl-C, which its parent handles, and exit when the parent has ended."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
