import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import {
  type Connections,
  createConnections,
  dropPiece,
  prove,
  readInTurn,
} from '../../src/receive/connections.ts';
import { SERVER_LIMITS } from '../../src/receive/server.ts';

it('remembers the connections that are open, and of those that have closed no more than twice as many', async () => {
  const connections = createConnections(SERVER_LIMITS, () => false);
  const server = createServer(connections.add).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const opened = async (): Promise<Socket> => {
    const [client] = await Promise.all([connect(port, '127.0.0.1'), once(server, 'connection')]);
    return client;
  };
  const staying = [await opened(), await opened(), await opened()];
  let most = 0;
  for (let n = 0; n < 200; n += 1) {
    const client = await opened();
    const theirs = connections.open().at(-1)!;
    client.destroy();
    if (!theirs.closed) await once(theirs, 'close');
    most = Math.max(most, connections.remembered());
  }
  expect(connections.open()).toHaveLength(3);
  expect(most).toBeLessThanOrEqual(64);
  for (const client of staying) client.destroy();
  server.close();
});

/** A socket as far as connections have to do with it, of whose piece some can be dropped. */
function fakeSocket(remoteAddress: string) {
  const parser = Object.assign(Object.create({ constructor: { kOnBody: 0 } }), { 0: () => 0 });
  const socket = {
    remoteAddress,
    parser,
    destroyed: false,
    isReading: true,
    bytesRead: 0,
    isPaused: () => !socket.isReading,
    pause() {
      socket.isReading = false;
    },
    resume() {
      socket.isReading = true;
    },
    destroy() {
      socket.destroyed = true;
    },
  };
  return socket as typeof socket & Socket;
}

/** A request in chunks on a connection, and what reached it. */
async function chunkedRequest(connections: Connections, remoteAddress: string) {
  const socket = fakeSocket(remoteAddress);
  await added(connections, socket);
  const reached: unknown[] = [];
  const push = (chunk: unknown) => reached.push(chunk);
  const request = { socket, headers: { 'transfer-encoding': 'chunked' }, push };
  const response = Object.assign(socket, { _httpMessage: {} })._httpMessage as ServerResponse;
  connections.used(request as unknown as IncomingMessage, response);
  const chunks = (count: number) => {
    for (let n = 0; n < count; n += 1) request.push('x');
  };
  return { socket, reached, request, chunks };
}

/** Adds one, and the turn of the event loop ends. */
async function added(connections: Connections, socket: Socket): Promise<void> {
  connections.add(socket);
  await turn();
}

it('a sender may use more than a few chunks in turn while others send too many, whose bodies never count as whole', async () => {
  const connections = createConnections(SERVER_LIMITS, () => false);
  const sender = await chunkedRequest(connections, '192.0.2.1');
  const stranger = await chunkedRequest(connections, '192.0.2.2');
  for (let turns = 0; turns < 2; turns += 1) {
    await turn();
    stranger.chunks(2_048);
    sender.chunks(8);
  }
  expect(sender.socket.destroyed).toBe(false);
  stranger.chunks(1);
  expect(stranger.socket.destroyed).toBe(true);
  stranger.request.push(null);
  expect(stranger.reached).not.toContain(null);
});

it('of all connections few may have requests ahead in one turn, and in the next they may again', async () => {
  const connections = createConnections(SERVER_LIMITS, () => false);
  const sockets = Array.from({ length: 66 }, (_, n) => fakeSocket(`192.0.2.${n}`));
  for (const socket of sockets) await added(connections, socket);
  /** A request that comes while another one is being answered. */
  const sendAhead = (socket: Socket) => {
    Object.assign(socket, { _httpMessage: {} });
    return connections.used({ socket, headers: {} } as IncomingMessage, {} as ServerResponse);
  };
  expect(sockets.slice(0, 65).map(sendAhead).indexOf(false)).toBe(64);
  expect(sockets[64]!.destroyed).toBe(true);
  await turn();
  expect(sendAhead(sockets[65]!)).toBe(true);
});

it('a piece that is dropped twice costs the next one on its parser nothing', async () => {
  const connections = createConnections(SERVER_LIMITS, () => false);
  const socket = fakeSocket('192.0.2.1');
  await added(connections, socket);
  const onBody = socket.parser[0];
  dropPiece(socket);
  dropPiece(socket);
  expect(socket.parser[0]).toBeNull();
  await turn();
  expect(socket.parser[0]).toBe(onBody);
});

describe('a connection is read', () => {
  it.each([
    ['costs little', 500],
    ['costs much', 65_536],
  ])('before an address has too many, however fast others come, where what comes %s', async (_, bytes) => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const sockets: ReturnType<typeof fakeSocket>[] = [];
    for (let n = 0; n < 1_000; n += 1) {
      sockets.push(fakeSocket('192.0.2.1'));
      await added(connections, sockets[n]!);
      // What is read is answered and closed at once.
      for (const socket of sockets) {
        if (!socket.isReading || socket.destroyed) continue;
        socket.bytesRead = bytes;
        socket.destroy();
      }
    }
    expect(sockets.filter((socket) => !socket.isReading && socket.destroyed)).toEqual([]);
    expect(sockets.filter((socket) => socket.isReading).length).toBeGreaterThan(790);
  });

  it.each([
    ['three', 'costs little', 500, 25],
    ['sixteen', 'costs much', 65_536, 6],
  ])('after %s others were accepted, and not later, where what comes %s', async (_, _what, bytes, read) => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const sockets: ReturnType<typeof fakeSocket>[] = [];
    for (let n = 0; n < 100; n += 1) {
      sockets.push(fakeSocket('192.0.2.1'));
      await added(connections, sockets[n]!);
      for (const socket of sockets) if (socket.isReading) socket.bytesRead = bytes;
    }
    const reading = sockets.filter((socket) => socket.isReading).length;
    expect(Math.abs(reading - read)).toBeLessThan(3);
  });

  it('in the order in which they came, also while its address has so many waiting that no more is accepted first', async () => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const sockets: ReturnType<typeof fakeSocket>[] = [];
    const order: number[] = [];
    for (let n = 0; n < 600; n += 1) {
      const socket = fakeSocket('192.0.2.1');
      socket.resume = () => {
        order.push(n);
        socket.destroyed = true;
        return socket;
      };
      sockets.push(socket);
      await added(connections, socket);
    }
    while (order.length < sockets.length) await turn();
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  });

  it('without a turn for each that was closed before it', async () => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const dear = fakeSocket('192.0.2.1');
    await added(connections, dear);
    dear.bytesRead = 65_536;
    const others = Array.from({ length: 100 }, () => fakeSocket('192.0.2.1'));
    for (const socket of others) connections.add(socket);
    const last = fakeSocket('192.0.2.1');
    connections.add(last);
    for (const socket of others) socket.destroy();
    for (let turns = 0; turns < 5; turns += 1) await turn();
    expect(last.isReading).toBe(true);
  });

  it('without a turn for each body before it that was given up', async () => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const socket = fakeSocket('192.0.2.1');
    await added(connections, socket);
    for (let n = 0; n < 100; n += 1) readInTurn(socket, () => false);
    const read = vi.fn();
    readInTurn(socket, read);
    for (let turns = 0; turns < 5; turns += 1) await turn();
    expect(read).toHaveBeenCalled();
  });

  it('at once where it has proven itself or its request is being answered, though others are held back', async () => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const [proven, busy, stranger, dear] = ['1', '2', '3', '4'].map((end) => fakeSocket(`192.0.2.${end}`));
    for (const socket of [proven!, busy!, stranger!, dear!]) await added(connections, socket);
    while (!dear!.isReading) await turn();
    prove({ socket: proven! });
    Object.assign(busy!, { _httpMessage: {} });
    dear!.pause();
    dropPiece(dear!);
    expect([proven, busy, stranger].map((socket) => socket!.isReading)).toEqual([true, true, false]);
  });

  it('before it is held back for the second time', async () => {
    const connections = createConnections(SERVER_LIMITS, () => false);
    const [dear, other, third] = ['1', '2', '3'].map((end) => fakeSocket(`192.0.2.${end}`));
    for (const socket of [dear!, other!, third!]) await added(connections, socket);
    while (!third!.isReading) await turn();
    dear!.pause();
    dropPiece(dear!);
    expect(other!.isReading).toBe(false);
    await turn();
    expect(other!.isReading).toBe(true);
    await turn();
    dropPiece(dear!);
    expect(other!.isReading).toBe(true);
  });
});
