import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { createBodies } from '../../src/receive/body.ts';

const MIB = 1_048_576;

/** A request of which only its bytes are looked at. */
const request = () => new PassThrough() as PassThrough & IncomingMessage;

async function settled<T>(promise: Promise<T>): Promise<T | 'coming'> {
  for (let turns = 0; turns < 5; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  return Promise.race([promise, Promise.resolve('coming' as const)]);
}

test('a body is what came, in whatever chunks, and once it is whole holds its own length', async () => {
  const piece = fc.uint8Array({ minLength: 1, maxLength: 9000 });
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), fc.boolean(), async (pieces, isDeclared) => {
      const whole = Buffer.concat(pieces);
      const bodies = createBodies({ maxHeldBytes: 4 * MIB, maxBodyBytes: MIB });
      const incoming = request();
      const reading = bodies.read(incoming, isDeclared ? whole.length : 0);
      for (const each of pieces) incoming.write(Buffer.from(each));
      incoming.end();
      const body = (await reading) as Buffer;
      expect(Buffer.compare(body, whole)).toBe(0);
      expect(bodies.heldBytes()).toBe(whole.length);
      bodies.release(body);
      expect(bodies.heldBytes()).toBe(0);
    }),
    { numRuns: 60 },
  );
});

test('a body whose sender is gone before it is read is not waited for', async () => {
  const bodies = createBodies({ maxHeldBytes: MIB, maxBodyBytes: MIB });
  const incoming = request();
  incoming.destroy();
  await once(incoming, 'close');
  expect(await settled(bodies.read(incoming, 5))).toBe('aborted');
  expect(bodies.heldBytes()).toBe(0);
});

test('a body that is cut off, or too large, leaves nothing behind', async () => {
  const bodies = createBodies({ maxHeldBytes: MIB, maxBodyBytes: 1_000 });
  const gone = request();
  const reading = bodies.read(gone, 0);
  gone.write('some');
  await settled(Promise.resolve());
  gone.destroy();
  expect(await reading).toBe('aborted');
  const large = request();
  const tooMuch = bodies.read(large, 0);
  large.write(Buffer.alloc(600));
  large.write(Buffer.alloc(600));
  expect(await tooMuch).toBe('too_large');
  large.end();
  await settled(Promise.resolve());
  expect(bodies.heldBytes()).toBe(0);
});

test('a body in one chunk is that chunk, and not a copy', async () => {
  const bodies = createBodies({ maxHeldBytes: MIB, maxBodyBytes: MIB });
  const incoming = request();
  const sent = Buffer.allocUnsafeSlow(5);
  const reading = bodies.read(incoming, 5);
  incoming.end(sent);
  expect(((await reading) as Buffer).buffer).toBe(sent.buffer);
});

test('of many bodies that come at once a few are read in a turn of the event loop, and all come whole', async () => {
  const [bodies, senders, length] = [
    createBodies({ maxHeldBytes: 128 * MIB, maxBodyBytes: MIB }),
    60,
    800_000,
  ];
  const reading: Promise<Buffer | string>[] = [];
  const server = createServer((incoming) => void reading.push(bodies.read(incoming, 0)));
  server.listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const wires = Array.from({ length: senders }, () => connect(port, '127.0.0.1'));
  for (const wire of wires) wire.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n{`);
  await expect.poll(() => bodies.heldBytes()).toBe(senders * 401);
  for (const wire of wires) wire.write(Buffer.alloc(length - 1, ' '));
  let most = 0;
  let [before, done] = [senders, false];
  void Promise.all(reading).then(() => {
    done = true;
  });
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, bodies.heldBytes() - before);
    before = bodies.heldBytes();
  }
  // All at once would be 48 MB. Each may grow its buffer to twice what has come.
  expect(most).toBeLessThan(16 * MIB);
  for (const body of await Promise.all(reading)) expect(body).toHaveLength(length);
});

test.each([
  ['of a word each', 1_000, 5, true],
  ['of a line each', 20_000, 80, true],
  ['of a byte each, and too many', 2_000, 1, false],
])('chunks %s are taken as far as they are reasonable', async (_what, count, length, taken) => {
  const bodies = createBodies({ maxHeldBytes: 16 * MIB, maxBodyBytes: 2 * MIB });
  const incoming = request();
  const reading = bodies.read(incoming, 0);
  for (let n = 0; n < count; n += 1) incoming.write(Buffer.alloc(length));
  incoming.end();
  const body = await reading;
  if (taken) expect(body).toHaveLength(count * length);
  else expect(body).toBe('too_many_chunks');
});

test('whatever is promised, room is taken only for what has come', async () => {
  const bodies = createBodies({ maxHeldBytes: 64 * MIB, maxBodyBytes: MIB });
  for (let n = 0; n < 900; n += 1) {
    const incoming = request();
    void bodies.read(incoming, MIB);
    incoming.write('a');
    incoming.write('b');
  }
  await settled(Promise.resolve());
  expect(bodies.heldBytes()).toBeLessThan(4 * MIB);
});

function send(bodies: ReturnType<typeof createBodies>, bytes: number) {
  const incoming = request();
  const reading = bodies.read(incoming, bytes);
  incoming.end(Buffer.alloc(bytes));
  return reading;
}

test('where there is no room, the body that has been coming for the longest gives way to a new one', async () => {
  const bodies = createBodies({ maxHeldBytes: 100_000, maxBodyBytes: 50_000 });
  const slow = Array.from({ length: 10 }, () => {
    const incoming = request();
    const reading = bodies.read(incoming, 50_000);
    incoming.write(Buffer.alloc(9_500));
    return reading;
  });
  const outcomes = () => Promise.all(slow.map(settled));
  await outcomes();
  expect(bodies.heldBytes()).toBe(99_000);
  expect(await send(bodies, 5_000)).toHaveLength(5_000);
  expect(await outcomes()).toEqual(['no_room', ...Array<string>(9).fill('coming')]);
  expect(await send(bodies, 40_000)).toHaveLength(40_000);
  expect((await outcomes()).slice(0, 4)).toEqual(Array<string>(4).fill('no_room'));
  expect((await outcomes()).at(-1)).toBe('coming');
  expect(bodies.heldBytes()).toBeLessThanOrEqual(100_000);
});

test('a body that is whole and waits for its answer never gives way: the new one does', async () => {
  const bodies = createBodies({ maxHeldBytes: 10_000, maxBodyBytes: 8_000 });
  const body = (await send(bodies, 8_000)) as Buffer;
  const second = request();
  const late = bodies.read(second, 8_000);
  second.write(Buffer.alloc(1_500));
  second.write(Buffer.alloc(4_000));
  expect(await late).toBe('no_room');
  expect(bodies.heldBytes()).toBe(8_000);
  bodies.release(body);
  expect(bodies.heldBytes()).toBe(0);
});
