import { setTimeout as sleep } from 'node:timers/promises';
import { type Attack, type Counts, noCounts } from './attack.ts';
import { addresses, count, forgedHeader, open, SIGNATURE, type Wire, write } from './wire.ts';

const MAX_BODY_BYTES = 1_048_576;
/** What the service must have ended by itself by now: its 15 s for a request, and some for looking. */
const PATIENCE_MS = 22_000;
/** The shorter run does not wait for that. */
const SHORT_HOLD_MS = 1_500;

function begin(wire: Wire, nth: number, ...headers: string[]): Promise<void> {
  const lines = ['Host: 127.0.0.1', `${SIGNATURE}: ${forgedHeader(nth)}`, ...headers];
  return write(wire, `POST /webhooks HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
}

/** Bodies in chunks of one byte: six bytes on the wire for each, and a buffer of its own where nobody takes care. */
const chunks: Attack = {
  unit: 'one-byte chunks on each of 8 connections, a heap of 512 MB',
  size: { full: MAX_BODY_BYTES - 1, short: 150_000 },
  arrangements: () => [{ nodeArgs: ['--max-old-space-size=512'] }],
  memoryMb: 150,
  async strike({ port }, size) {
    const counts = noCounts();
    const piece = 16_384;
    const bytes = Buffer.from('1\r\n[\r\n'.repeat(piece));
    await Promise.all(
      addresses(2, 8).map(async (from, nth) => {
        const wire = open({ port, from });
        await begin(wire, nth, 'Transfer-Encoding: chunked');
        for (let left = size; left > 0 && !wire.socket.destroyed; left -= piece) {
          await write(wire, bytes.subarray(0, Math.min(left, piece) * 6));
        }
        await write(wire, '0\r\n\r\n');
        await wire.answers(1);
        wire.socket.destroy();
        count(counts, wire, 1);
      }),
    );
    return noneServed(counts);
  },
};

/** What fits into the 64 KiB that are read at once. */
const PIECE_BYTES = 65_000;

/** By then the service has accepted what has connected: from now on all of it may come in one turn of its event loop. */
const ACCEPTED_MS = 700;

/** Pieces full of what is small, on connections that are all there already, accepted or not. */
const pieces: Attack = {
  unit: 'connections from four addresses, a piece of 64 KiB of small things on each at once',
  size: { full: 600, short: 25 },
  memoryMb: 300,
  async strike({ port, opsPort }, size) {
    const counts = noCounts();
    const head = (path: string, ...headers: string[]) =>
      `POST ${path} HTTP/1.1\r\n${['Host: 127.0.0.1', 'Transfer-Encoding: chunked', ...headers].join('\r\n')}\r\n\r\n`;
    const filled = (start: string, small: string) =>
      Buffer.from(start + small.repeat((PIECE_BYTES - start.length) / small.length));
    const chunk = '1\r\n[\r\n';
    for (const [where, bytes] of [
      [port, filled(head('/nothing'), chunk)],
      [port, filled(head('/webhooks', `${SIGNATURE}: ${forgedHeader()}`), chunk)],
      [opsPort, filled(head('/sign-in'), chunk)],
      [port, filled('', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')],
      [port, filled('', 'GET / HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n')],
      [opsPort, filled('', 'GET /sign-in HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ] as const) {
      const from = addresses(23, 4);
      for (const acceptedMs of [0, ACCEPTED_MS]) {
        const wires = Array.from({ length: size }, (_, nth) => open({ port: where, from: from[nth % 4]! }));
        await Promise.all(wires.map(connected));
        await sleep(acceptedMs);
        for (const wire of wires) void write(wire, bytes);
        await Promise.all(wires.map((wire) => Promise.race([wire.answers(1), wire.ended])));
        for (const wire of wires) {
          wire.socket.destroy();
          count(counts, wire, 1);
        }
      }
    }
    return counts;
  },
};

function connected(wire: Wire): Promise<void> {
  return new Promise((resolve) => {
    wire.socket.once('connect', () => resolve());
    void wire.ended.then(resolve);
  });
}

/** Bodies that are sent all but the last byte, and then wait. */
const endlessBodies: Attack = {
  unit: 'bodies of 1 MiB that never end',
  size: { full: 500, short: 60 },
  memoryMb: 300,
  async strike({ port }, size, length) {
    const bytes = Buffer.alloc(MAX_BODY_BYTES - 1, '[');
    const chunked = `${bytes.length.toString(16)}\r\n`;
    return await hold({ port, net: 3, size, length, words: 'without its end' }, async (wire, nth) => {
      if (nth % 2 === 0) await begin(wire, nth, `Content-Length: ${MAX_BODY_BYTES}`);
      else {
        await begin(wire, nth, 'Transfer-Encoding: chunked');
        await write(wire, chunked);
      }
      await write(wire, bytes);
    });
  },
};

/** Bodies of which a byte comes now and then. */
const slowBodies: Attack = {
  unit: 'bodies, a byte each half second',
  size: { full: 400, short: 100 },
  async strike({ port }, size, length) {
    return await hold({ port, net: 4, size, length, words: 'with a slow body' }, async (wire, nth) => {
      await begin(wire, nth, 'Content-Length: 100000');
      await drip(wire, '[');
    });
  },
};

/** Headers of which a byte comes now and then. */
const slowHeaders: Attack = {
  unit: 'headers, a byte each half second',
  size: { full: 400, short: 100 },
  async strike({ port, opsPort }, size, length) {
    return await hold({ port, opsPort, net: 5, size, length, words: 'with slow headers' }, async (wire) => {
      await write(wire, 'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ');
      await drip(wire, 'x');
    });
  },
};

async function drip(wire: Wire, byte: string): Promise<void> {
  while (!wire.socket.destroyed) {
    void write(wire, byte);
    await sleep(500);
  }
}

interface Hold {
  port: number;
  /** Every second connection goes here, where given. */
  opsPort?: number;
  net: number;
  size: number;
  length: 'full' | 'short';
  words: string;
}

/** Opens them all from four addresses and waits: at full length until the service has ended each. */
async function hold(
  { port, opsPort = port, net, size, length, words }: Hold,
  send: (wire: Wire, nth: number) => Promise<void>,
): Promise<Counts> {
  const counts = noCounts();
  const from = addresses(net, 4);
  const wires = Array.from({ length: size }, (_, nth) =>
    open({ port: nth % 2 === 0 ? port : opsPort, from: from[nth % from.length]! }),
  );
  for (const [nth, wire] of wires.entries()) void send(wire, nth);
  const patience = new AbortController();
  await Promise.race([
    Promise.all(wires.map((wire) => wire.ended)),
    sleep(length === 'full' ? PATIENCE_MS : SHORT_HOLD_MS, null, { signal: patience.signal }),
  ]);
  patience.abort();
  const open_ = wires.filter((wire) => !wire.socket.destroyed).length;
  if (length === 'full' && open_ > 0) {
    counts.faults.push(`${open_} connections ${words} are open after ${PATIENCE_MS / 1000} s`);
  }
  for (const wire of wires) {
    wire.socket.destroy();
    count(counts, wire, 1);
  }
  return noneServed(counts);
}

/** Nobody here holds the secret. */
export function noneServed(counts: Counts): Counts {
  if (counts.served > 0) counts.faults.push(`${counts.served} requests of a stranger were answered 2xx`);
  return counts;
}

export const BODY_ATTACKS = {
  chunks,
  pieces,
  'endless-bodies': endlessBodies,
  'slow-bodies': slowBodies,
  'slow-headers': slowHeaders,
};
