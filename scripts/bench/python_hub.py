"""The hub that scripts/bench/hub.py compares with: asyncio, `websockets`, `broadcast`, no compression.

Whatever a client of /worker sends goes to every other client. A viewer that is behind by more than
MAX_WAITING bytes does not get what arrives meanwhile, as in our hub: nobody's memory grows.
"""

from __future__ import annotations

import asyncio
import contextlib

from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed

MAX_WAITING = 8 << 20  # our hub's SendQueueLimits::total_bytes

viewers: set[ServerConnection] = set()


def keeps_up(viewer: ServerConnection) -> bool:
    transport = viewer.transport
    return not transport.is_closing() and transport.get_write_buffer_size() < MAX_WAITING


async def serve_client(client: ServerConnection) -> None:
    assert client.request
    if client.request.path == "/worker":
        with contextlib.suppress(ConnectionClosed):
            async for message in client:
                broadcast(filter(keeps_up, viewers), message)
        return
    viewers.add(client)
    await client.wait_closed()
    viewers.discard(client)


async def main() -> None:
    server = await serve(
        serve_client, "127.0.0.1", 0, compression=None, max_size=None, ping_interval=None
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
