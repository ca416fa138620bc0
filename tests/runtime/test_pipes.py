"""A pipe that takes what commands write."""

import asyncio
import threading

from belljar.runtime.pipes import OutputPipe


def test_what_writes_without_end_to_nobody_does_not_keep_the_server_from_its_work(tmp_path):
    endless = tmp_path / "endless"
    endless.symlink_to("/dev/zero")
    gone_on = threading.Event()

    async def work() -> None:
        draining = asyncio.create_task(OutputPipe(endless).drain())
        await asyncio.sleep(0.01)
        gone_on.set()
        draining.cancel()

    threading.Thread(target=asyncio.run, args=(work(),), daemon=True).start()
    assert gone_on.wait(60)
