import { connect, type Socket } from 'node:net';
import { header, nowSeconds } from '../receive/sign.ts';

/** What came back to an attacker. */
export interface Counts {
  /** Answered 2xx. */
  served: number;
  /** Answered otherwise. */
  rejected: number;
  /** Asked, and the connection ended, or the attack did, before an answer. */
  unanswered: number;
  /** What the service should not have done. */
  faults: string[];
}

export const noCounts = (): Counts => ({ served: 0, rejected: 0, unanswered: 0, faults: [] });

/** One connection to the service, of which the answers are counted. */
export interface Wire {
  socket: Socket;
  /** Of each answer so far. */
  statuses: number[];
  /** Resolves when the connection is over, however it ended. */
  ended: Promise<void>;
  /** Resolves when that many answers have come, or the connection is over. */
  answers(count: number): Promise<void>;
}

const STATUS_LINE = /HTTP\/1\.1 ([1-5]\d\d) /g;
/** Longer than a status line: one that is cut in two is found all the same, and none is found twice. */
const KEPT = 12;

/** `from`: the loopback address that it comes from. `deaf`: it never reads. */
export function open(port: number, from: string, { deaf = false } = {}): Wire {
  const socket = connect({ port, host: '127.0.0.1', localAddress: from, noDelay: true, allowHalfOpen: true });
  const waiting = new Set<() => void>();
  const look = () => {
    for (const each of waiting) each();
  };
  const ended = new Promise<void>((resolve) => {
    socket.once('close', () => {
      resolve();
      look();
    });
  });
  const statuses: number[] = [];
  // An error is always followed by the close; that it came is all there is to know.
  socket.on('error', () => undefined);
  socket.on('end', () => socket.end());
  if (!deaf) {
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      for (const [, status] of text.matchAll(STATUS_LINE)) statuses.push(Number(status));
      text = text.slice(-KEPT).replaceAll(STATUS_LINE, '');
      look();
    });
  }
  return {
    socket,
    statuses,
    ended,
    answers: (count) =>
      new Promise((resolve) => {
        const done = () => {
          if (statuses.length < count && !socket.closed) return;
          waiting.delete(done);
          resolve();
        };
        waiting.add(done);
        done();
      }),
  };
}

/** Resolves once what was written has left, or the connection is over. */
export function write(wire: Wire, bytes: string | Buffer): Promise<void> {
  if (wire.socket.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    wire.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes, () => resolve());
    void wire.ended.then(resolve);
  });
}

/** Closes a connection and adds what came back on it; `asked` requests were sent. */
export function finish(counts: Counts, wire: Wire, asked: number): void {
  wire.socket.destroy();
  for (const status of wire.statuses) {
    if (status < 300) counts.served += 1;
    else counts.rejected += 1;
  }
  counts.unanswered += Math.max(0, asked - wire.statuses.length);
}

/** After so many connections in a row without any answer a part of the flood gives up. */
const GIVE_UP_AFTER = 200;

/** Sends `total` requests from four addresses, over connections that are opened anew when the service closes them. */
export async function flood(
  port: number,
  net: number,
  total: number,
  request: (index: number) => Buffer,
): Promise<Counts> {
  const counts = noCounts();
  const from = addresses(net);
  let next = 0;
  const run = async (position: number): Promise<void> => {
    let fruitless = 0;
    while (next < total && fruitless < GIVE_UP_AFTER) {
      const wire = open(port, from[position % from.length]!);
      let asked = 0;
      while (next < total && !wire.socket.destroyed) {
        wire.socket.write(request(next++));
        asked += 1;
        await wire.answers(asked);
        if (wire.statuses.length < asked) break;
      }
      finish(counts, wire, asked);
      fruitless = wire.statuses.length > 0 ? 0 : fruitless + 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, (_, position) => run(position)));
  return counts;
}

const CONNECTIONS = 64;

/** Loopback addresses of one attack: 127.0.NET.1 to 4. */
export function addresses(net: number): string[] {
  return [1, 2, 3, 4].map((last) => `127.0.${net}.${last}`);
}

/** The head of a request. */
export function head(line: string, ...headers: string[]): string {
  return `${[`${line} HTTP/1.1`, 'Host: 127.0.0.1', ...headers].join('\r\n')}\r\n\r\n`;
}

/** A POST to the receiver as it goes over the wire. */
export function post(body: string | Buffer, ...headers: string[]): Buffer {
  const start = head('POST /webhooks', `Content-Length: ${Buffer.byteLength(body)}`, ...headers);
  return Buffer.concat([Buffer.from(start, 'latin1'), Buffer.from(body)]);
}

/** A header as right in form as any, made by somebody without the secret. */
export function forged(nth = 0): string {
  return `X-Webhook-Signature: t=${nowSeconds()}, v1=${nth.toString(16).padStart(64, 'f')}`;
}

export function signed(body: string, key: Uint8Array): Buffer {
  return post(body, `X-Webhook-Signature: ${header(nowSeconds(), body, key)}`);
}

export function event(id: string, data: object = { vendorId: 'vendor-0001', name: 'A forged name' }): string {
  return JSON.stringify({ id, type: 'vendor.updated', created: new Date().toISOString(), data });
}
