"""One request, from its head to the end of its answer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import httpcore2

from belljar.broker.asking import requests as asking
from belljar.broker.asking.judgeprocess import JudgeProcesses
from belljar.broker.asking.requests import Asked
from belljar.broker.asking.storedanswers import StoredAnswers
from belljar.broker.asking.streamoptions import WithoutUsage
from belljar.broker.dialects import error_form, stores_answers
from belljar.broker.doors import Door
from belljar.broker.events import Events
from belljar.broker.http import websocket
from belljar.broker.http.exchange import Exchange
from belljar.broker.http.fairloop import give_way
from belljar.broker.http.headers import Header, first, for_client, for_upstream
from belljar.broker.http.room import Kept, Room
from belljar.broker.record import RequestRecord
from belljar.broker.refusals import RefusedRequest
from belljar.broker.secrets import Secret, SecretError, Secrets, references
from belljar.broker.spending.answers import Answer
from belljar.broker.spending.budgets import Budgets
from belljar.broker.spending.ledger import SpendingLedger
from belljar.broker.spending.prices import Prices
from belljar.broker.upstream.backoff import Backoff, key_of
from belljar.broker.upstream.providers import FAILURES, Sent, Upstreams, failed
from belljar.policy.services import Service

_PIECE: Final = 1 << 10
"""Bytes of an answer that are read at once: the worst of them take half a millisecond."""

_SWITCHING: Final = 101
_UNAUTHORIZED: Final = 401
_FIRST_ERROR: Final = 400


class Broker:
    """Serves requests, whoever asks."""

    def __init__(self, environ: Mapping[str, str], ledger: SpendingLedger, events: Events) -> None:
        self._secrets = Secrets(environ)
        self._upstreams = Upstreams(environ)
        self._budgets = Budgets(ledger, Prices(environ))
        self._backoff = Backoff()
        self._room = Room()
        self._judging = JudgeProcesses()
        self._stored = StoredAnswers()
        self._looking_up = WeakValueDictionary[tuple[str, ...], asyncio.Lock]()
        """Who waits for a secret waits for one lookup: it may run a command, or ask the user."""
        self._events = events

    async def handle(self, door: Door, exchange: Exchange) -> None:
        """Serve a request, and tell of it. Raises ClientGoneError."""
        record = RequestRecord(door.preamble, exchange)
        try:
            with self._room.keep(door.preamble.sandbox) as kept:
                await self._serve(door, exchange, record, kept)
        except RefusedRequest as refusal:
            if not exchange.has_answered:
                record.status, record.refused = refusal.status, refusal.code
            await refuse(exchange, door.preamble.service, refusal)
        finally:
            record.end(self._budgets, self._events)

    async def close(self) -> None:
        """Close the connections to providers."""
        self._judging.close()
        await self._upstreams.close()

    async def _serve(self, door: Door, exchange: Exchange, record: RequestRecord, kept: Kept) -> None:
        door.check(exchange)
        service = door.preamble.service
        asked = await asking.read(exchange, door.preamble, kept, self._judging)
        record.model = asked.model
        self._stored.check(door.preamble.sandbox, asked.references)
        headers = await self._headers_for(service)
        key = key_of(service.target, headers, asked.model)
        self._backoff.check(key)
        record.spending = self._budgets.admit(door.preamble, asked.demand)
        record.is_estimated = asking.counts_tokens(service)
        response = await self._upstreams.send(
            door.preamble.sandbox, service.target, _sent(exchange, asked, headers, record, kept)
        )
        try:
            self._learn(service, key, response)
            stores = stores_answers(asking.path_of(exchange))
            remember = partial(self._stored.add, door.preamble.sandbox) if stores else None
            answer = Answer(_header_of(response, b"content-type") or b"", remember)
            await _relay(exchange, asked, response, record, answer)
        except FAILURES as error:
            raise failed(urlsplit(service.target).hostname or "", error) from None
        finally:
            await response.aclose()

    async def _headers_for(self, service: Service) -> list[tuple[str, Secret]]:
        try:
            if self._secrets.is_at_hand(service):
                return self._secrets.headers_of(service)
            async with self._looking_up.setdefault(references(service), asyncio.Lock()):
                return await asyncio.to_thread(self._secrets.headers_of, service)
        except SecretError as error:
            raise RefusedRequest(502, "secret", str(error)) from None

    def _learn(self, service: Service, key: bytes, response: httpcore2.Response) -> None:
        self._backoff.learn(key, response.status, _header_of(response, b"retry-after"))
        if response.status == _UNAUTHORIZED:
            self._secrets.forget(service)


def _header_of(response: httpcore2.Response, name: bytes) -> bytes | None:
    return first([(each.lower(), value) for each, value in response.headers], name)


async def refuse(exchange: Exchange, service: Service, refusal: RefusedRequest) -> None:
    """Answer a request ourselves; or break the answer off, if a part of it is on its way. Raises ClientGoneError."""
    if exchange.has_answered:
        exchange.abort()
        return
    body = refusal.body(error_form(service, asking.path_of(exchange)))
    await exchange.answer(refusal.status, [*refusal.headers(), ("content-length", str(len(body)))])
    if exchange.method != "HEAD":
        await exchange.send(body)
    await exchange.finish()


def _sent(
    exchange: Exchange, asked: Asked, headers: list[tuple[str, Secret]], record: RequestRecord, kept: Kept
) -> Sent:
    ours = [(name.encode(), value.reveal().encode()) for name, value in headers]
    sent = for_upstream(exchange.headers, ours, is_judged=asked.is_judged)
    if asked.is_websocket:
        exchange.has_said_all()
        return Sent("GET", asked.target, sent + websocket.for_upstream(exchange.headers), None)
    if asked.is_judged:
        length = (b"content-length", str(len(kept)).encode())
        return Sent(exchange.method, asked.target, [*sent, length], _counted(kept.sent(), record))
    if not exchange.has_body:
        exchange.has_said_all()
        return Sent(exchange.method, asked.target, sent, None)
    known = first(exchange.headers, b"content-length")
    framing: Header = (b"content-length", known) if known is not None else (b"transfer-encoding", b"chunked")
    return Sent(exchange.method, asked.target, [*sent, framing], _counted(exchange.body(), record))


async def _counted(parts: AsyncIterator[bytes], record: RequestRecord) -> AsyncIterator[bytes]:
    async for part in parts:
        record.sent(part)
        yield part


async def _relay(
    exchange: Exchange, asked: Asked, response: httpcore2.Response, record: RequestRecord, answer: Answer
) -> None:
    counts = record.is_estimated
    record.status, record.refused = response.status, None
    if response.status == _SWITCHING:
        client, early = await exchange.switch(websocket.for_client(response.headers))
        await websocket.relay(client, response.extensions["network_stream"], early, record.passed)
        exchange.abort()
        return
    headers = for_client(response.headers)
    if counts and first(headers, b"content-encoding") not in {None, b"identity"}:
        raise RefusedRequest(
            502, "encoding", "the provider's answer is encoded, though that was not asked for: not counted"
        )
    record.answer = answer
    record.is_estimated = counts and response.status < _FIRST_ERROR
    if record.is_estimated and asked.is_judged and not answer.can_be_read:
        answer.cut_off()
        raise RefusedRequest(502, "encoding", "the provider's answer is in a form in which nothing can be counted")
    hiding = WithoutUsage() if asked.hides_usage and answer.is_stream else None
    await exchange.answer(response.status, headers, response.extensions.get("reason_phrase", b""))
    try:
        async for data in response.aiter_stream():
            await exchange.send(await _read(data, record, hiding))
    except BaseException:
        record.cut_off()
        raise
    if hiding is not None:
        await exchange.send(hiding.rest())
    await exchange.finish()


async def _read(data: bytes, record: RequestRecord, hiding: WithoutUsage | None) -> bytes:
    """Read a part of an answer, in steps of which none takes long; return what the client gets of it."""
    parts = []
    for start in range(0, len(data), _PIECE):
        await give_way()
        piece = data[start : start + _PIECE]
        record.received(piece)
        parts.append(piece if hiding is None else hiding.feed(piece))
    return b"".join(parts)
