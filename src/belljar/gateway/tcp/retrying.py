"""TLS servers that ask for a second hello, and take the name from that.

Nothing that stands behind the first hello is passed on before the server has answered: it could be the second one.
"""

import select
from socket import MSG_PEEK

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream
from belljar.gateway.tcp.firstbytes import TlsClient
from belljar.wire.outcome import NEED_MORE
from belljar.wire.tls.retryhello import ANSWER_BYTES, RetriedHelloParser, asks_for_retry


async def server_asks_for_retry(loop: Loop, upstream: Stream) -> bool:
    """Look at the server's answer to a hello, and leave it where it is. Raises OSError."""
    is_all = False
    while True:
        try:
            answer = asks_for_retry(upstream.socket.recv(ANSWER_BYTES, MSG_PEEK))
            if answer is not NEED_MORE or is_all:
                return answer is True
            is_all = _has_ended(upstream)
            if is_all:  # what was sent before the end can be seen now
                continue
        except BlockingIOError:
            pass
        await loop.readable(upstream.watch)


def _has_ended(stream: Stream) -> bool:
    """Tell whether nothing more will come. To be woken and find nothing new does not tell that."""
    poll = select.poll()
    poll.register(stream.descriptor, select.POLLRDHUP)
    return bool(poll.poll(0))


async def read_second_hello(client: Stream, behind: bytes) -> TlsClient:
    """Read what a client says when it was asked for another hello; `behind` stands behind its first. Raises OSError."""
    parser, received = RetriedHelloParser(), bytearray(behind)
    answer = parser.feed(behind)
    while answer is NEED_MORE:
        data = await client.read_to_keep()
        if not data:
            raise ConnectionResetError("the client does not repeat its hello")
        received += data
        answer = parser.feed(data)
    return TlsClient(bytes(received), answer, b"")
