import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { header, nowSeconds } from '../receive/sign.ts';
import { type Counts, noCounts } from './attack.ts';

/** One connection to the service, read as bytes: what comes back is counted, whatever was sent. */
export interface Wire {
  socket: Socket;
  /** Of each whole answer so far. */
  statuses: number[];
  /** What came that is no answer; null: all was well-formed. */
  garbage: string | null;
  /** Everything that came, as latin1, where `keep` was asked for. */
  received: string;
  /** Resolves when the connection is over, however it ended. */
  ended: Promise<void>;
  /** Resolves when that many answers have come, or the connection is over. */
  answers(count: number): Promise<void>;
}

export interface WireOptions {
  port: number;
  /** The loopback address that it comes from. */
  from: string;
  keep?: boolean;
  /** Never reads: what the service answers stays with it. */
  deaf?: boolean;
}

export function open({ port, from, keep = false, deaf = false }: WireOptions): Wire {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from, noDelay: true });
  const waiting = new Set<() => void>();
  const look = () => {
    for (const each of waiting) each();
  };
  const wire: Wire = {
    socket,
    statuses: [],
    garbage: null,
    received: '',
    ended: new Promise((resolve) => {
      socket.once('close', () => {
        resolve();
        look();
      });
    }),
    answers: (count) =>
      new Promise((resolve) => {
        const done = () => {
          if (wire.statuses.length < count && !socket.closed) return;
          waiting.delete(done);
          resolve();
        };
        waiting.add(done);
        done();
      }),
  };
  // An error is always followed by the close; that it came is all there is to know.
  socket.on('error', () => undefined);
  if (deaf) return wire;
  const feed = createReader(
    (status) => wire.statuses.push(status),
    (garbage) => {
      wire.garbage ??= garbage;
    },
  );
  socket.on('data', (chunk) => {
    const text = chunk.toString('latin1');
    if (keep) wire.received += text;
    feed(text);
    look();
  });
  return wire;
}

/** Takes answers apart. One without a length lasts until the connection ends. */
function createReader(onStatus: (status: number) => void, onGarbage: (text: string) => void) {
  let text = '';
  let bodyLeft = 0;
  return (more: string): void => {
    text += more;
    for (;;) {
      const skipped = Math.min(bodyLeft, text.length);
      text = text.slice(skipped);
      bodyLeft -= skipped;
      if (text === '') return;
      const headEnd = text.indexOf('\r\n\r\n');
      if (!'HTTP/1.1 '.startsWith(text.slice(0, 9)) || (headEnd >= 0 && !STATUS_LINE.test(text))) {
        onGarbage(text.slice(0, 100));
        return;
      }
      if (headEnd === -1) return;
      const head = text.slice(0, headEnd);
      text = text.slice(headEnd + 4);
      const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
      const status = Number(head.slice(9, 12));
      // `100 Continue` is a head alone.
      bodyLeft = status < 200 ? 0 : length === undefined ? Number.POSITIVE_INFINITY : Number(length);
      onStatus(status);
    }
  };
}

const STATUS_LINE = /^HTTP\/1\.1 [1-5]\d\d [ -~]*\r\n/;

/** Resolves once what was written has left, or the connection is over. */
export function write(wire: Wire, bytes: string | Buffer): Promise<void> {
  if (wire.socket.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    wire.socket.write(bytes, 'latin1' as never, () => resolve());
    void wire.ended.then(resolve);
  });
}

/** Adds what came back on a connection; `asked` requests were sent on it. */
export function count(counts: Counts, wire: Wire, asked: number): void {
  for (const status of wire.statuses) {
    if (status < 300) counts.served += 1;
    else counts.rejected += 1;
    counts.statuses[status] = (counts.statuses[status] ?? 0) + 1;
  }
  counts.unanswered += Math.max(0, asked - wire.statuses.length);
  if (wire.garbage !== null) counts.faults.push(`not an answer: ${JSON.stringify(wire.garbage)}`);
}

export interface Flood {
  port: number;
  addresses: readonly string[];
  connections: number;
  total: number;
  /** The nth request, whole. */
  request: (index: number) => Buffer;
}

/** How long a connection that was turned away at once waits before it comes again. */
const TURNED_AWAY_MS = 20;
/** After so many connections in a row without any answer a part of the flood gives up. */
const GIVE_UP_AFTER = 200;

/** Sends every request once, over connections that are opened anew when the service closes them. */
export async function flood({ port, addresses, connections, total, request }: Flood): Promise<Counts> {
  const counts = noCounts();
  let next = 0;
  const run = async (position: number): Promise<void> => {
    let fruitless = 0;
    while (next < total && fruitless < GIVE_UP_AFTER) {
      const wire = open({ port, from: addresses[position % addresses.length]! });
      let asked = 0;
      while (next < total && !wire.socket.destroyed) {
        const bytes = request(next++);
        asked += 1;
        wire.socket.write(bytes);
        await wire.answers(asked);
        if (wire.statuses.length < asked) break;
      }
      wire.socket.destroy();
      count(counts, wire, asked);
      fruitless = wire.statuses.length > 0 ? 0 : fruitless + 1;
      if (fruitless > 0) await sleep(TURNED_AWAY_MS);
    }
  };
  await Promise.all(Array.from({ length: connections }, (_, position) => run(position)));
  return counts;
}

/** Loopback addresses of one attack: 127.0.NET.1 and on. */
export function addresses(net: number, howMany: number): string[] {
  return Array.from({ length: howMany }, (_, index) => `127.0.${net}.${index + 1}`);
}

/** A POST to the receiver as it goes over the wire. */
export function post(body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Buffer {
  const lines = Object.entries({
    Host: '127.0.0.1',
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`POST /webhooks HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'),
    Buffer.from(body),
  ]);
}

export const SIGNATURE = 'X-Webhook-Signature';

/** A header as right in form as any, made by somebody without the secret. */
export function forgedHeader(nth = 0): string {
  return `t=${nowSeconds()}, v1=${nth.toString(16).padStart(64, 'f')}`;
}

export function signed(body: string | Buffer, key: Uint8Array): Buffer {
  return post(body, { [SIGNATURE]: header(nowSeconds(), body, key) });
}

export function event(id: string, data: object = { vendorId: 'vendor-0001', name: 'A forged name' }): string {
  return JSON.stringify({ id, type: 'vendor.updated', created: new Date().toISOString(), data });
}
