"""Calls that block, each on a thread of its own: none waits for a thread that somebody else's call has taken.

Nor does the end of the server wait for any: what a backend has not done by then, the next life finds written down.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def apart(call: Callable[[], T]) -> T:
    """Call something on a new thread, and return or raise what it does. It goes on if nobody waits any more."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    Thread(target=run, name="belljar-call", daemon=True).start()
    return await asyncio.wrap_future(done)
