"""The network between page and server: refuses, delays, cuts replies short, delivers twice, or swallows everything."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading

from tests.chaos.server import free_port

__all__ = ["MODES", "Proxy"]

MODES = ("refuse", "delay", "cut", "double", "swallow")
_STARTS = (b"POST ", b"GET ", b"PATCH ", b"DELETE ", b"PUT ")


class Proxy:
    """Passes connections on to a port of this machine.

    Attributes:
        port: where clients connect.
        mode: what happens to traffic now: `pass`, or one of `MODES`.
        cuts: replies cut short.
        doubles: requests delivered a second time.
    """

    def __init__(self, target: int, seed: int) -> None:
        self.port, self.mode, self._target = free_port(), "pass", target
        self.cuts = self.doubles = 0
        self._random = random.Random(seed)
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="proxy", daemon=True)
        self._thread.start()
        ready.wait()

    def set(self, mode: str) -> None:
        """Change the mode; `refuse` also cuts what is open."""
        self.mode = mode
        if mode == "refuse":
            self._loop.call_soon_threadsafe(lambda: [_abort(writer) for writer in list(self._open)])

    def close(self) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        serving = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        ready.set()
        self._loop.run_forever()
        serving.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        onward = None
        try:
            if self.mode == "refuse":
                return
            source, onward = await asyncio.open_connection("127.0.0.1", self._target)
            ways = [
                asyncio.ensure_future(self._up(reader, onward)),
                asyncio.ensure_future(self._down(source, writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass
        finally:
            self._open.discard(writer)
            _abort(writer)
            if onward is not None:
                _abort(onward)

    async def _up(self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter) -> None:
        second: asyncio.StreamWriter | None = None
        try:
            while data := await reader.read(1 << 16):
                if self.mode == "delay":
                    await asyncio.sleep(self._random.uniform(0, 0.8))
                if self.mode == "swallow":
                    continue
                onward.write(data)
                await onward.drain()
                if self.mode == "double" and (second is not None or data.startswith(_STARTS)):
                    second = second or await self._again()
                    second.write(data)
                    self.doubles += data.startswith(_STARTS)
        finally:
            if second is not None:
                # Let what was doubled arrive before the connection goes.
                with contextlib.suppress(OSError):
                    second.close()

    async def _again(self) -> asyncio.StreamWriter:
        source, second = await asyncio.open_connection("127.0.0.1", self._target)

        async def forget() -> None:
            with contextlib.suppress(OSError):
                while await source.read(1 << 16):
                    pass

        self._forgetting = asyncio.ensure_future(forget())
        return second

    async def _down(self, source: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            if self.mode == "cut" and self._random.random() < 0.3:
                # The server has done what it was asked; nobody hears of it.
                self.cuts += 1
                writer.write(data[: self._random.randrange(len(data))])
                await writer.drain()
                return
            writer.write(data)
            await writer.drain()


def _abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, AttributeError):
        line = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
