"""The client for asyncio, over TCP with a token."""

import asyncio

import pytest

from belljar.client import Egress, NetworkPolicy, NotFoundError, PolicyChangedError, RequestError
from tests.control.servers import until


def test_a_claim_can_be_awaited_or_be_deleted_at_the_end(server, with_async):
    async def act(client):
        async with client.claim(backend="memory", labels={"async": "yes"}) as sandbox:
            assert [each.id async for each in client.sandboxes(labels={"async": "yes"})] == [sandbox.id]
        assert sandbox.id not in server.world.sandboxes
        kept = await client.claim(backend="memory")
        assert (await client.sandbox(kept.id)).state == kept.state
        await kept.delete()
        with pytest.raises(NotFoundError):
            await kept.reload()
        with pytest.raises(RequestError):
            await client.claim(backend="nowhere")

    with_async(act)


def test_commands_and_files(with_async):
    async def act(client):
        async with client.claim(backend="memory") as sandbox:
            results = await asyncio.gather(*(sandbox.exec(["echo", str(number)]) for number in range(5)))
            assert [result.stdout for result in results] == [f"{number}\n" for number in range(5)]
            async with sandbox.stream(["cat"], stdin="text") as running:
                assert [output.text async for output in running] == ["text"]
                assert (await running.wait()).exit_code == 0
            await sandbox.files.put("file", "content")
            assert await sandbox.files.get("file") == b"content"
            assert (await sandbox.pause()).status == "paused"
            assert (await sandbox.resume()).status == "running"
            assert (await sandbox.refresh(ttl=60)).expires_at is not None

    with_async(act)


def test_a_cancelled_command_ends(server, with_async):
    async def act(client):
        async with client.claim(backend="memory") as sandbox:
            running = asyncio.create_task(sandbox.exec(["sleep", "600"]))
            commands = server.world.sandboxes[sandbox.id].commands
            [process] = await asyncio.to_thread(until, lambda: commands[-1:])
            running.cancel()
            assert await asyncio.to_thread(process.wait, 20) == 137

    with_async(act)


def test_policies(with_async):
    async def act(client):
        async with client.claim(backend="memory") as sandbox:
            old = await sandbox.get_network_policy()
            policy = NetworkPolicy("block-all", Egress(allowed_domains=["github.com"]))
            change = await sandbox.update_network_policy(policy)
            assert (change.generation, await sandbox.get_network_policy()) == (2, policy)
            with pytest.raises(PolicyChangedError):
                await sandbox.update_network_policy(old)
            assert (await sandbox.preview_network_policy(NetworkPolicy("allow-all"))).generation == 2
            await sandbox.amend_network_policy(add={"egress": {"allowed_domains": ["x.test"]}})
            assert (await sandbox.explain("x.test")).action == "allow"
            grant = await sandbox.grant("y.test", 60)
            assert [each.allow for each in await sandbox.grants()] == ["y.test"]
            await sandbox.end_grant(grant.id)
            assert (await sandbox.denials(), await sandbox.flows()) == ([], [])

    with_async(act)


def test_events_until_the_sandbox_is_deleted(with_async):
    async def act(client):
        sandbox = await client.claim(backend="memory")
        async with client.events() as everything, sandbox.events(after=0) as events:
            await sandbox.pause()
            await sandbox.delete()
            assert [event.event async for event in events][-1] == "sandbox.deleted"
            async for event in everything:
                if event.event == "sandbox.deleted":
                    break
        assert event.sandbox == sandbox.id

    with_async(act)
