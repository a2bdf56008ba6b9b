import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { createBodies } from '../../src/receive/body.ts';
import { createConnections } from '../../src/receive/connections.ts';
import { SERVER_LIMITS } from '../../src/receive/server.ts';

const MIB = 1_048_576;

/** A request of which only its bytes are looked at. */
const request = () => new PassThrough() as PassThrough & IncomingMessage;

async function settled<T>(promise: Promise<T>): Promise<T | 'coming'> {
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  return Promise.race([promise, Promise.resolve('coming' as const)]);
}

test('a body is what came, in whatever pieces, and once it is whole holds its own length', async () => {
  const piece = fc.uint8Array({ minLength: 1, maxLength: 9000 });
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), fc.boolean(), async (pieces, isDeclared) => {
      const whole = Buffer.concat(pieces);
      const bodies = createBodies(MIB);
      const incoming = request();
      const reading = bodies.read(incoming, MIB, isDeclared ? whole.length : 0);
      for (const each of pieces) incoming.write(Buffer.from(each));
      incoming.end();
      const body = (await reading) as Buffer;
      expect(Buffer.compare(body, whole)).toBe(0);
      expect(bodies.heldBytes()).toBe(whole.length);
      if (pieces.length > 1) expect(body.buffer.byteLength).toBe(whole.length);
      bodies.release(body);
      expect(bodies.heldBytes()).toBe(0);
    }),
    { numRuns: 60 },
  );
});

test('a body whose sender is gone before it is read is not waited for', async () => {
  const bodies = createBodies(MIB);
  const incoming = request();
  incoming.destroy();
  await once(incoming, 'close');
  expect(await settled(bodies.read(incoming, MIB, 5))).toBe('aborted');
  expect(bodies.heldBytes()).toBe(0);
});

test('a body that is given up holds nothing, though the rest of it is still read to its end', async () => {
  const bodies = createBodies(MIB);
  const incoming = request();
  for (const piece of ['five5', 'more5', 'last5']) incoming.write(piece);
  incoming.end();
  // All of it waits to be read, as for a body that was paused.
  await settled(Promise.resolve());
  const reading = bodies.read(incoming, 7, 0);
  expect(await settled(reading)).toBe('too_large');
  // As Node does once the answer is sent.
  incoming.resume();
  await settled(reading);
  expect(incoming.readableEnded).toBe(true);
  expect(bodies.heldBytes()).toBe(0);
});

test('a body in one piece is that piece, and not a copy', async () => {
  const bodies = createBodies(MIB);
  const incoming = request();
  const sent = Buffer.allocUnsafeSlow(5);
  const reading = bodies.read(incoming, MIB, 5);
  incoming.end(sent);
  expect(((await reading) as Buffer).buffer).toBe(sent.buffer);
});

test('of many bodies that come at once a piece is read in a turn of the event loop, and all come whole', async () => {
  const [bodies, senders, length] = [createBodies(64 * MIB), 60, 800_000];
  const connections = createConnections(SERVER_LIMITS, () => false);
  const reading: Promise<Buffer | string>[] = [];
  const server = createServer((incoming) => void reading.push(bodies.read(incoming, MIB, 0)));
  server.on('connection', connections.add).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const wires = Array.from({ length: senders }, () => connect(port, '127.0.0.1'));
  for (const wire of wires) wire.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n{`);
  await expect.poll(() => bodies.heldBytes()).toBe(senders);
  for (const wire of wires) wire.write(Buffer.alloc(length - 1, ' '));
  let [before, most] = [senders, 0];
  while (before < senders * length) {
    await new Promise((resolve) => setImmediate(resolve));
    const now = bodies.heldBytes();
    most = Math.max(most, now - before);
    before = now;
  }
  expect(most).toBeLessThan(senders * 100_000);
  for (const body of await Promise.all(reading)) expect(body).toHaveLength(length);
});

test('a body in crumbs is given up at once, and takes next to no memory', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const memory = () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const bodies = createBodies(64 * MIB);
  const outcomes: unknown[] = [];
  const server = createServer((incoming) => {
    void bodies.read(incoming, MIB, 0).then((outcome) => outcomes.push(outcome));
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  const before = memory();
  socket.write('POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n');
  // A buffer for each piece was 380 MB. The 6 MB that wait to be sent are the client's.
  socket.write('1\r\nx\r\n'.repeat(MIB));
  await expect.poll(() => outcomes).toEqual(['too_many_pieces']);
  expect(bodies.heldBytes()).toBe(0);
  expect(memory() - before).toBeLessThan(40 * MIB);
});

test.each([
  ['of a word each', 1_000, 5, 1_000],
  ['of a line each', 20_000, 80, 20_000],
  ['of a byte each, and too many', 2_000, 1, 1_042],
])('pieces %s are taken as far as they are reasonable', async (_what, count, length, taken) => {
  const bodies = createBodies(4 * MIB);
  const incoming = request();
  let seen = 0;
  incoming.on('data', () => {
    seen += 1;
  });
  const reading = bodies.read(incoming, 4 * MIB, 0);
  for (let n = 0; n < count; n += 1) incoming.write(Buffer.alloc(length));
  incoming.end();
  const body = await reading;
  if (count === taken) expect(body).toHaveLength(count * length);
  else expect(body).toBe('too_many_pieces');
  expect(seen).toBeGreaterThanOrEqual(Math.min(count, taken) - 2);
});

test('whatever is promised, room is taken only for what has come', async () => {
  const bodies = createBodies(64 * MIB);
  for (let n = 0; n < 900; n += 1) {
    const incoming = request();
    void bodies.read(incoming, MIB, MIB);
    incoming.write('a');
    incoming.write('b');
  }
  await settled(Promise.resolve());
  expect(bodies.heldBytes()).toBeLessThan(4 * MIB);
});

test('where there is no room, the body that has been coming for the longest gives way to a new one, large or small', async () => {
  const bodies = createBodies(100_000);
  const slow = Array.from({ length: 10 }, () => {
    const incoming = request();
    const reading = bodies.read(incoming, 50_000, 50_000);
    incoming.write(Buffer.alloc(9_900));
    return reading;
  });
  await settled(Promise.resolve());
  expect(bodies.heldBytes()).toBe(99_000);

  const small = request();
  const smallReading = bodies.read(small, 50_000, 5_000);
  small.end(Buffer.alloc(5_000));
  expect(await smallReading).toHaveLength(5_000);
  expect(await Promise.all(slow.map(settled))).toEqual(['no_room', ...Array<string>(9).fill('coming')]);

  const large = request();
  const largeReading = bodies.read(large, 50_000, 40_000);
  for (let n = 0; n < 40; n += 1) large.write(Buffer.alloc(1_000));
  large.end();
  expect(await largeReading).toHaveLength(40_000);
  const outcomes = await Promise.all(slow.map(settled));
  expect(outcomes.slice(0, 4)).toEqual(Array<string>(4).fill('no_room'));
  expect(outcomes.at(-1)).toBe('coming');
  expect(bodies.heldBytes()).toBeLessThanOrEqual(100_000);
});

test('a body that is whole and waits for its answer never gives way: the new one does', async () => {
  const bodies = createBodies(10_000);
  const first = request();
  const reading = bodies.read(first, 8_000, 8_000);
  first.end(Buffer.alloc(8_000));
  const body = (await reading) as Buffer;
  const second = request();
  const late = bodies.read(second, 8_000, 8_000);
  second.write(Buffer.alloc(1_500));
  second.write(Buffer.alloc(4_000));
  expect(await late).toBe('no_room');
  expect(bodies.heldBytes()).toBe(8_000);
  bodies.release(body);
  expect(bodies.heldBytes()).toBe(0);
});

test('a body that is cut off, or too large, leaves nothing behind', async () => {
  const bodies = createBodies(MIB);
  const gone = request();
  const reading = bodies.read(gone, 1_000, 0);
  gone.write('some');
  await settled(Promise.resolve());
  gone.destroy();
  expect(await reading).toBe('aborted');
  const large = request();
  const tooMuch = bodies.read(large, 1_000, 0);
  large.write(Buffer.alloc(600));
  large.write(Buffer.alloc(600));
  expect(await tooMuch).toBe('too_large');
  expect(bodies.heldBytes()).toBe(0);
});
