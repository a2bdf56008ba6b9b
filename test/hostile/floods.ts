import { setTimeout as sleep } from 'node:timers/promises';
import { header, nowSeconds } from '../receive/sign.ts';
import { type Attack, addCounts, type Counts, noCounts } from './attack.ts';
import { noneServed } from './bodies.ts';
import { listOf } from './operators.ts';
import {
  addresses,
  count,
  event,
  flood,
  forgedHeader,
  open,
  post,
  SIGNATURE,
  signed,
  write,
} from './wire.ts';

const CONNECTIONS = 64;
const MINUTE_MS = 60_000;

/** Deliveries that are rejected, each for one of the reasons that anybody can give. */
function forgery(nth: number): Buffer {
  const body = event(`forged_${nth}`);
  const digits = nth.toString(16).padStart(64, '0');
  switch (nth % 5) {
    case 0:
      return post(body);
    case 1:
      return post(body, { [SIGNATURE]: `t=${nowSeconds()}` });
    case 2:
      return post(body, { [SIGNATURE]: `t=${nowSeconds() - 1_000}, v1=${digits}` });
    case 3:
      return post(body, { [SIGNATURE]: `t=${nth}x, v1=${digits}` });
    default:
      return post(body, { [SIGNATURE]: forgedHeader(nth) });
  }
}

const forge = (port: number, net: number, total: number) =>
  flood({ port, addresses: addresses(net, 4), connections: CONNECTIONS, total, request: forgery });

const rejections: Attack = {
  unit: 'forged deliveries from four addresses',
  size: { full: 100_000, short: 500 },
  strike: async ({ port }, size) => noneServed(await forge(port, 12, size)),
};

/** A sender with the secret, and much to say at once. */
const accepted: Attack = {
  unit: 'signed deliveries in one burst',
  size: { full: 100_000, short: 500 },
  async strike({ port, key }, size) {
    const bytes = Buffer.from(key, 'hex');
    const counts = await flood({
      port,
      addresses: addresses(13, 4),
      connections: CONNECTIONS,
      total: size,
      request: (nth) =>
        signed(event(`burst_${nth}`, { vendorId: `vendor-${nth % 500}`, name: `${nth}` }), bytes),
    });
    if (counts.served < size)
      counts.faults.push(`${size - counts.served} signed deliveries were not accepted`);
    return counts;
  },
};

/** Everything that a stranger can have noted, as often as he likes. */
const logFlood: Attack = {
  unit: 'rejections of every sort',
  size: { full: 20_000, short: 500 },
  logBytes: 1_048_576,
  async strike({ port, opsPort }, size) {
    const counts = noCounts();
    addCounts(counts, await forge(port, 14, size / 2));
    const odd: readonly (readonly [number, string])[] = [
      [port, 'GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
      [port, 'PUT /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n'],
      [
        port,
        'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n',
      ],
      [port, 'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n'],
      [
        port,
        `POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\n${SIGNATURE}: ${forgedHeader()}\r\nContent-Length: 9\r\n\r\n{`,
      ],
      [port, 'no HTTP at all\r\n\r\n'],
      [opsPort, 'GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'],
      [opsPort, 'GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n\r\n'],
    ];
    const from = addresses(14, 4);
    let next = 0;
    const run = async () => {
      while (next < size / 2) {
        const nth = next++;
        const [where, text] = odd[nth % odd.length]!;
        const wire = open({ port: where, from: from[nth % from.length]! });
        await write(wire, text);
        wire.socket.end();
        await wire.ended;
        count(counts, wire, 1);
      }
    };
    await Promise.all(Array.from({ length: 32 }, run));
    // The page that leads to the sign-in is no success for a stranger.
    return noneServed(counts);
  },
};

/** A log that goes into a pipe nobody reads; that SIGTERM ends it all the same is seen when the stage closes. */
const stuckLog: Attack = {
  unit: 'rejections, and half as many deliveries, with a log that nobody reads',
  size: { full: 20_000, short: 1_000 },
  arrangements: () => [{ log: 'stuck' }],
  async strike({ port, key }, size) {
    const bytes = Buffer.from(key, 'hex');
    const counts = noneServed(await forge(port, 15, size));
    const real = await flood({
      port,
      addresses: addresses(15, 4),
      connections: CONNECTIONS,
      total: size / 2,
      request: (nth) => signed(event(`stuck_${nth}`), bytes),
    });
    if (real.served < size / 2)
      real.faults.push(`only ${real.served} of ${size / 2} signed deliveries accepted`);
    addCounts(counts, real);
    return counts;
  },
};

const OLD_SECONDS = 1_000;

/** Of the real sender's trouble something must be left to see after a flood: his clock, and a secret that is not ours. */
const rejectionsKept: Attack = {
  unit: 'forged deliveries after three real ones that are wrong',
  size: { full: 20_000, short: 500 },
  async strike(target, size, length) {
    const counts = noCounts();
    const bytes = Buffer.from(target.key, 'hex');
    const t = nowSeconds();
    const real: Record<string, Buffer> = {
      'with an old time': signedAt(t - OLD_SECONDS, bytes),
      'with a future time': signedAt(t + OLD_SECONDS, bytes),
      'in milliseconds': signedAt(t * 1000, bytes),
    };
    // A wrong secret looks like any forgery: of a minute before the flood it is kept all the same.
    if (length === 'full') real['with another secret'] = signedAt(t, Buffer.from('of somebody else'));
    const before = await send(target.port, Object.values(real));
    addCounts(counts, before);
    if (length === 'full') await sleep(MINUTE_MS - (Date.now() % MINUTE_MS) + 1_000);
    addCounts(counts, await forge(target.port, 16, size));
    const listed = JSON.stringify(await listOf(target, '/api/rejections'));
    for (const [what, request] of Object.entries(real)) {
      const v1 = /v1=([0-9a-f]+)/.exec(request.toString('latin1'))![1]!;
      if (!listed.includes(v1)) counts.faults.push(`the real delivery ${what} is not listed any more`);
    }
    counts.note = `${(listed.length / 1024).toFixed(0)} KiB of rejections listed`;
    return noneServed(counts);
  },
};

function signedAt(t: number, key: Uint8Array): Buffer {
  const body = event('real');
  return post(body, { [SIGNATURE]: header(t, body, key) });
}

/** One after the other, from where the real sender is. */
async function send(port: number, requests: readonly Buffer[]): Promise<Counts> {
  const counts = noCounts();
  for (const request of requests) {
    const wire = open({ port, from: '127.0.0.9' });
    wire.socket.write(request);
    await wire.answers(1);
    wire.socket.destroy();
    count(counts, wire, 1);
  }
  return counts;
}

export const FLOOD_ATTACKS = {
  rejections,
  accepted,
  'log-flood': logFlood,
  'stuck-log': stuckLog,
  'rejections-kept': rejectionsKept,
};
