"""Run an agent, see what it is denied as it happens, and open one destination for a minute."""

import asyncio

import belljar
from belljar.client import DENIALS, Denial

SHELL = "until curl -s --max-time 10 https://github.com; do sleep 0.2; done"


async def main() -> None:
    """Run it."""
    async with belljar.AsyncClient() as client, client.claim() as sandbox, sandbox.events() as events:
        agent = asyncio.create_task(sandbox.exec(SHELL, timeout=60))
        async for event in events:
            if event.event in DENIALS:
                denial = Denial.of(event)
                print(f"denied: {denial.destination}: {denial.sentence}")
                break
        grant = await sandbox.grant("github.com", 60)
        print(f"{grant.allow} is open")
        print(f"the agent got: {(await agent).stdout}", end="")


asyncio.run(main())
