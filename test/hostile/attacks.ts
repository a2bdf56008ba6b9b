import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { SECRET } from '../receive/sign.ts';
import {
  addresses,
  type Counts,
  event,
  finish,
  flood,
  forged,
  head,
  noCounts,
  open,
  post,
  signed,
  type Wire,
  write,
} from './wire.ts';

/** Where the service is. */
export interface Target {
  port: number;
  opsPort: number;
}

export interface Attack {
  /** For the table: what `size` counts. */
  unit: string;
  size: { full: number; short: number };
  /** Bytes of log that it may cause; default: not judged. */
  logBytes?: number;
  /** Resolves when it is over. `holdMs`: how long what is meant to stay stays. */
  strike: (target: Target, size: number, holdMs: number) => Promise<Counts>;
}

const MAX_BODY_BYTES = 1_048_576;

const chunks: Attack = {
  unit: 'one-byte chunks on each of 8 connections',
  size: { full: MAX_BODY_BYTES - 1, short: 100_000 },
  async strike({ port, opsPort }, size) {
    const counts = noCounts();
    const from = addresses(3);
    const piece = 16_384;
    const bytes = Buffer.from('1\r\n[\r\n'.repeat(piece));
    const one = async (nth: number) => {
      const [where, path] = nth < 6 ? [port, 'POST /webhooks'] : [opsPort, 'POST /sign-in'];
      const wire = open(where!, from[nth % from.length]!);
      await write(wire, head(path!, 'Transfer-Encoding: chunked', forged(nth)));
      for (let left = size; left > 0 && !wire.socket.destroyed; left -= piece) await write(wire, bytes);
      await Promise.race([wire.answers(1), sleep(2_000)]);
      finish(counts, wire, 1);
    };
    await Promise.all(Array.from({ length: 8 }, (_, nth) => one(nth)));
    return counts;
  },
};

/** Bodies that are sent all but the last byte, and then wait; half of them as one chunk. */
const endlessBodies: Attack = {
  unit: 'bodies of 1 MiB that never end',
  size: { full: 400, short: 60 },
  strike: ({ port }, size, holdMs) => {
    const bytes = Buffer.alloc(MAX_BODY_BYTES - 1, '[');
    return hold(port, 4, size, holdMs, async (wire, nth) => {
      const isChunked = nth % 2 === 0;
      const length = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${MAX_BODY_BYTES}`;
      await write(wire, head('POST /webhooks', length, forged(nth)));
      if (isChunked) await write(wire, `${bytes.length.toString(16)}\r\n`);
      await write(wire, bytes);
    });
  },
};

const slowBodies: Attack = {
  unit: 'bodies, a byte each half second',
  size: { full: 400, short: 100 },
  strike: ({ port }, size, holdMs) =>
    hold(port, 5, size, holdMs, async (wire, nth) => {
      await write(wire, head('POST /webhooks', 'Content-Length: 100000', forged(nth)));
      await drip(wire, '[');
    }),
};

const slowHeaders: Attack = {
  unit: 'headers, a byte each half second',
  size: { full: 400, short: 100 },
  strike: ({ port }, size, holdMs) =>
    hold(port, 6, size, holdMs, async (wire) => {
      await write(wire, 'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ');
      await drip(wire, 'x');
    }),
};

/** What an idle connection has said before: nothing, half a request, a whole one that anybody may make, a forged delivery. */
const WORDS = [
  '',
  'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le',
  head('GET /livez'),
  post('{}'),
];

const idle: Attack = {
  unit: 'idle connections, opened anew as they are closed',
  size: { full: 1_200, short: 1_200 },
  strike: ({ port }, size, holdMs) =>
    hold(port, 7, size, holdMs, async (wire, nth) => {
      await write(wire, WORDS[nth % WORDS.length]!);
    }),
};

const pipelining: Attack = {
  unit: 'requests on each of 8 connections, no answer read',
  size: { full: 20_000, short: 1_000 },
  async strike({ port, opsPort }, size, holdMs) {
    const counts = noCounts();
    const from = addresses(8);
    const requests: readonly (readonly [number, Buffer])[] = [
      [port, Buffer.from(head('GET /livez'))],
      [port, Buffer.from(head('GET /nothing', 'Expect: b'))],
      [port, post('')],
      [port, post(event('forged'), forged())],
      ...['/readyz', '/sign-in', '/api/status', '/livez'].map(
        (path) => [opsPort, Buffer.from(head(`GET ${path}`))] as const,
      ),
    ];
    const one = async ([where, request]: readonly [number, Buffer], nth: number) => {
      const wire = open(where, from[nth % from.length]!, { deaf: true });
      await Promise.race([sleep(holdMs), write(wire, Buffer.concat(Array(size).fill(request)))]);
      finish(counts, wire, size);
    };
    await Promise.all(requests.map(one));
    return counts;
  },
};

/** Each for one of the reasons that anybody can give. */
function forgery(nth: number): Buffer {
  const body = event(`forged_${nth}`);
  const lines = [
    'X-A: a',
    'X-Webhook-Signature: t=1',
    `X-Webhook-Signature: t=${nth}x, v1=${'0'.repeat(64)}`,
    forged(nth),
  ];
  return post(body, lines[nth % lines.length]!);
}

const wrongSignatures: Attack = {
  unit: 'deliveries with wrong signatures',
  size: { full: 30_000, short: 500 },
  logBytes: MAX_BODY_BYTES,
  strike: ({ port }, size) => flood(port, 9, size, forgery),
};

const FILLERS = ['\u00a0', ' ', '\t', ',', ';', '=', '"', '%', 'a=', '((', ', a', '\u0085'];
const NAMES = [
  'X-Webhook-Signature',
  'Content-Encoding',
  'Accept',
  'Authorization',
  'Cookie',
  'X-Forwarded-For',
];
/** As long as a header may be, with some left for the others. */
const LONG = 15_000;

/** Values that make a careless pattern look again and again, and heads that are longer than any may be. */
const headers: Attack = {
  unit: 'requests with long headers, half of them to the operators',
  size: { full: 4_000, short: 200 },
  async strike({ port, opsPort }, size) {
    const request = (nth: number) => {
      const filler = FILLERS[nth % FILLERS.length]!;
      const name = NAMES[Math.floor(nth / FILLERS.length) % NAMES.length]!;
      const length = nth % 50 === 0 ? 10 * LONG : LONG;
      return post('{}', `${name}: x${filler.repeat(length / filler.length)}x`);
    };
    const both = [port, opsPort].map((where, nth) => flood(where, 10 + nth, size / 2, request));
    return sum(await Promise.all(both));
  },
};

/** Requests, whole and in part, whose sender says that nothing more follows and then waits. */
const halfClosed: Attack = {
  unit: 'half-closed connections',
  size: { full: 3_000, short: 200 },
  async strike({ port }, size) {
    const counts = noCounts();
    const from = addresses(12);
    let next = 0;
    const run = async () => {
      while (next < size) {
        const nth = next++;
        const wire = open(port, from[nth % from.length]!);
        wire.socket.end(nth % 2 === 0 ? WORDS[(nth / 2) % WORDS.length]! : forgery(nth));
        await Promise.race([wire.ended, sleep(20_000, null, { ref: false })]);
        if (!wire.socket.closed) counts.faults.push('a half-closed connection stays open');
        finish(counts, wire, 1);
      }
    };
    await Promise.all(Array.from({ length: 64 }, run));
    // A probe is rightly answered.
    return { ...counts, served: 0 };
  },
};

const gzip: Attack = {
  unit: 'bodies that unpack to 100 MB',
  size: { full: 2_000, short: 50 },
  strike: ({ port }, size) => {
    const bomb = post(gzipSync(Buffer.alloc(100 * 2 ** 20)), 'Content-Encoding: gzip', forged());
    return flood(port, 13, size, () => bomb);
  },
};

/** The empty key, and each beginning of each reading of the secret and of one that is neither hex nor base64. */
function truncatedKeys(): Buffer[] {
  const readings = [SECRET, '!!!!****????~~~~####!!!!****????~~~~', 'zz-not-a-digit-of-hex'].flatMap((text) =>
    (['utf8', 'hex', 'base64'] as const).map((encoding) => Buffer.from(text, encoding)),
  );
  const all = readings.flatMap((key) => Array.from(key, (_, bytes) => key.subarray(0, bytes)));
  return [Buffer.alloc(0), ...all];
}

const forgedKeys: Attack = {
  unit: 'deliveries signed with truncated keys',
  size: { full: 5_000, short: 300 },
  strike: ({ port }, size) => {
    const keys = truncatedKeys();
    return flood(port, 14, size, (nth) => signed(event(`forged_${nth}`), keys[nth % keys.length]!));
  },
};

/** Whatever else a stranger can have noted. */
const log: Attack = {
  unit: 'requests of every sort that is logged or counted',
  size: { full: 10_000, short: 300 },
  logBytes: MAX_BODY_BYTES,
  strike: ({ port }, size) => {
    const odd = [
      head('GET /nothing'),
      head('PUT /webhooks', 'Content-Length: 0'),
      head('POST /webhooks', 'Content-Length: 99999999'),
      `${head('POST /webhooks', 'Transfer-Encoding: chunked', forged())}x`,
      'no HTTP at all\r\n\r\n',
      head('GET /livez').replace('127.0.0.1', 'a b'),
    ].map((text) => Buffer.from(text));
    return flood(port, 15, size, (nth) => odd[nth % odd.length]!);
  },
};

const operators: Attack = {
  unit: "requests to the operators' listener, tokens guessed among them",
  size: { full: 20_000, short: 400 },
  logBytes: MAX_BODY_BYTES,
  async strike({ opsPort }, size, holdMs) {
    const host = `Host: 127.0.0.1:${opsPort}`;
    const text = (nth: number) => {
      const form = `token=guess-of-a-token-of-thirty-two-${nth}`;
      const sorts = [
        head('GET /api/status', `Authorization: Bearer ${form}`),
        head('GET /sign-in'),
        head('GET /metrics'),
        head('GET /'),
        head('POST /sign-in', `Origin: http://${host}`, `Content-Length: ${form.length}`) + form,
      ];
      return Buffer.from(sorts[nth % sorts.length]!.replace('Host: 127.0.0.1\r', `${host}\r`));
    };
    const idling = hold(opsPort, 16, 1_200, holdMs, async () => undefined);
    // A page that leads to the sign-in is no success.
    const counts = await flood(opsPort, 17, size, text);
    return { ...sum([counts, await idling]), served: 0 };
  },
};

/** By the name that the command line knows. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  chunks,
  'endless-bodies': endlessBodies,
  'slow-bodies': slowBodies,
  'slow-headers': slowHeaders,
  idle,
  pipelining,
  'wrong-signatures': wrongSignatures,
  headers,
  'half-closed': halfClosed,
  gzip,
  'forged-keys': forgedKeys,
  log,
  operators,
};

async function drip(wire: Wire, byte: string): Promise<void> {
  while (!wire.socket.destroyed) {
    void write(wire, byte);
    await sleep(500);
  }
}

/** Whoever holds connections opens those anew that were closed. */
const AGAIN_MS = 250;

/** Keeps that many connections from four addresses for `holdMs`. */
async function hold(
  port: number,
  net: number,
  size: number,
  holdMs: number,
  send: (wire: Wire, nth: number) => Promise<void>,
): Promise<Counts> {
  const counts = noCounts();
  const from = addresses(net);
  const again = (nth: number) => {
    const wire = open(port, from[nth % from.length]!);
    void send(wire, nth);
    return wire;
  };
  const wires = Array.from({ length: size }, (_, nth) => again(nth));
  const until = performance.now() + holdMs;
  while (performance.now() < until) {
    await sleep(AGAIN_MS);
    for (const [nth, wire] of wires.entries()) {
      if (!wire.socket.destroyed) continue;
      finish(counts, wire, 1);
      wires[nth] = again(nth);
    }
  }
  for (const wire of wires) finish(counts, wire, 1);
  // A probe is rightly answered.
  return { ...counts, served: 0 };
}

function sum(all: readonly Counts[]): Counts {
  const total = noCounts();
  for (const { served, rejected, unanswered, faults } of all) {
    total.served += served;
    total.rejected += rejected;
    total.unanswered += unanswered;
    total.faults.push(...faults);
  }
  return total;
}
