import { hash } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Attack, noCounts, type Target } from './attack.ts';
import { addresses, count, flood, forgedHeader, open, post, SIGNATURE, signed, write } from './wire.ts';

interface Got {
  status: number;
  body: string;
  ms: number;
}

interface Ask {
  from?: string;
  /** Default: the owner's. */
  headers?: Readonly<Record<string, string>>;
}

function get(
  { opsPort, token }: Target,
  path: string,
  { from = '127.0.17.1', headers }: Ask = {},
): Promise<Got> {
  const at = performance.now();
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest(
      {
        host: '127.0.0.1',
        port: opsPort,
        path,
        localAddress: from,
        agent: false,
        headers: headers ?? { authorization: `Bearer ${token}` },
      },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part) => parts.push(part));
        response.on('end', () => {
          const body = Buffer.concat(parts).toString();
          resolve({ status: response.statusCode!, body, ms: performance.now() - at });
        });
        response.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    outgoing.end();
  });
}

/** All rows of a list of the JSON API, page by page. */
export async function listOf(target: Target, path: string): Promise<Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  let after = '';
  for (;;) {
    const { status, body } = await get(target, `${path}?limit=500${after}`);
    if (status !== 200) throw new Error(`${path} answered ${status}: ${body.slice(0, 200)}`);
    const { items, next } = JSON.parse(body) as { items: Record<string, unknown>[]; next: unknown };
    rows.push(...items);
    if (next === null || next === undefined) return rows;
    after = `&after=${encodeURIComponent(String(next))}`;
  }
}

const NETWORKS = 20;
/** A few lines for each address, and some for each minute. */
const MOST_AUDITED = 200;

/** Tokens guessed at both doors, while the owner comes from the very same addresses with the right one. */
const tokenGuessing: Attack = {
  unit: `guesses of a token from ${NETWORKS} addresses`,
  size: { full: 4_000, short: 400 },
  async strike(target, size) {
    const from = addresses(18, NETWORKS);
    const auditedBefore = (await listOf(target, '/api/audit')).length;
    let over = false;
    const owner = async () => {
      const faults: string[] = [];
      for (let nth = 0; !over; nth++) {
        const { status } = await get(target, '/api/status', { from: from[nth % from.length]! });
        if (status !== 200) faults.push(`the owner was answered ${status} at an attacker's address`);
        await sleep(50);
      }
      return faults.slice(0, 3);
    };
    const owning = owner();
    const counts = await flood({
      port: target.opsPort,
      addresses: from,
      connections: NETWORKS * 10,
      total: size,
      request: (nth) => guess(target, `guess-${hash('sha256', `${nth}`)}`, nth % 2 === 0),
    });
    over = true;
    counts.faults.push(...(await owning));
    if (counts.served > 0) counts.faults.push(`${counts.served} guesses were answered 2xx`);
    const audited = (await listOf(target, '/api/audit')).length - auditedBefore;
    if (audited < 1) counts.faults.push('audit says nothing of it');
    if (audited > MOST_AUDITED) counts.faults.push(`audit has ${audited} lines more`);
    counts.note = `${audited} lines more in audit; ${JSON.stringify(counts.statuses)}`;
    return counts;
  },
};

function guess({ opsPort }: Target, token: string, asBearer: boolean): Buffer {
  const host = `127.0.0.1:${opsPort}`;
  if (asBearer) {
    return Buffer.from(`GET /api/status HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  }
  const form = `token=${token}`;
  return Buffer.from(
    `POST /sign-in HTTP/1.1\r\nHost: ${host}\r\nOrigin: http://${host}\r\n` +
      `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${form.length}\r\n\r\n${form}`,
  );
}

/** How long the streams stay. */
const STREAMS_MS = { full: 8_000, short: 1_500 };
const STREAMS_FREED_MS = 10_000;

/** Streams of a page and waits for changes, asked for with a right token: read, not read, half closed, asked for by HEAD. */
const streams: Attack = {
  unit: 'streams and waits of each of four sorts',
  size: { full: 120, short: 70 },
  async strike(target, size, length) {
    const counts = noCounts();
    const page = await get(target, '/');
    const stream = /data-stream="([^"]+)"/.exec(page.body)?.[1];
    if (stream === undefined) counts.faults.push('the status page names no stream');
    const { body } = await get(target, '/api/changes?limit=1');
    const { next } = JSON.parse(body) as { next: string };
    const wait = `/api/changes?after=${encodeURIComponent(next)}&wait=30`;
    const from = addresses(19, 4);
    const head = (method: string, path: string) =>
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${target.opsPort}\r\nAuthorization: Bearer ${target.token}\r\n\r\n`;
    const wires = Array.from({ length: size }, (_, nth) =>
      [
        ['GET', stream, {}],
        ['GET', stream, { deaf: true }],
        ['HEAD', stream, {}],
        ['GET', wait, {}],
      ].map(([method, path, more]) => {
        const wire = open({ port: target.opsPort, from: from[nth % from.length]!, ...(more as object) });
        wire.socket.write(head(method as string, (path as string | undefined) ?? '/stream'));
        // A reader that says it is done and stays: half open.
        if (nth % 3 === 0) wire.socket.end();
        return wire;
      }),
    ).flat();
    await sleep(STREAMS_MS[length]);
    for (const wire of wires) {
      wire.socket.destroy();
      count(counts, wire, 1);
    }
    // Once they are gone there must be room for a person again.
    let status = 0;
    const until = performance.now() + STREAMS_FREED_MS;
    while (status !== 200 && performance.now() < until) {
      const again = open({ port: target.opsPort, from: '127.0.17.2' });
      again.socket.write(head('GET', stream ?? '/stream'));
      await again.answers(1);
      again.socket.destroy();
      status = again.statuses[0] ?? 0;
      await sleep(200);
    }
    if (status !== 200) counts.faults.push(`a stream after they are gone is answered ${status}`);
    return counts;
  },
};

/** The cookie of a session, as a browser would send it back. */
async function signIn(target: Target): Promise<string | null> {
  const wire = open({ port: target.opsPort, from: '127.0.17.3', keep: true });
  wire.socket.write(guess(target, target.token, false));
  await wire.answers(1);
  wire.socket.destroy();
  return /\r\nset-cookie: ([^;]+)/i.exec(wire.received)?.[1] ?? null;
}

const EVIL = 'evil.example';

/** Names that a page elsewhere may have had resolved to this address, so as to read it with a visitor's browser. */
const hosts: Attack = {
  unit: "rounds of foreign Host headers at the operators' listener",
  size: { full: 20, short: 1 },
  async strike(target, size) {
    const counts = noCounts();
    const { opsPort, token } = target;
    const names = [
      EVIL,
      `${EVIL}:${opsPort}`,
      `127.0.0.1.${EVIL}:${opsPort}`,
      `localhost.${EVIL}`,
      `${EVIL}.`,
      `127.0.0.1:${opsPort}@${EVIL}`,
      `${EVIL}#127.0.0.1:${opsPort}`,
      `${EVIL}/127.0.0.1:${opsPort}`,
      `127.0.0.1:${opsPort}, ${EVIL}`,
      '',
    ];
    const requests = [
      'GET /',
      'GET /sign-in',
      'GET /api/status',
      'GET /metrics',
      'POST /sign-in',
      'POST /api/pause',
    ];
    const auth = `Authorization: Bearer ${token}\r\n`;
    // What a browser adds by itself. A bearer it does not, and no page elsewhere knows one.
    const cookie = await signIn(target);
    if (cookie === null) counts.faults.push('the owner could not sign in');
    const faults = new Set<string>();
    const ask = async (text: string, from = '127.0.20.1') => {
      const wire = open({ port: opsPort, from, keep: true });
      await write(wire, text);
      await Promise.race([wire.answers(1), sleep(5_000, null, { ref: false })]);
      wire.socket.destroy();
      count(counts, wire, 1);
      return wire;
    };
    for (let round = 0; round < size; round++) {
      for (const request of requests) {
        for (const name of names) {
          const rest = `Origin: http://${name}\r\nContent-Length: 0\r\n\r\n`;
          const wire = await ask(`${request} HTTP/1.1\r\nHost: ${name}\r\nCookie: ${cookie}\r\n${rest}`);
          const status = wire.statuses[0] ?? 400;
          if (status < 400) faults.add(`${request} with Host ${JSON.stringify(name)} is answered ${status}`);
        }
        // One after the other, either first.
        const [here, there] = [`Host: 127.0.0.1:${opsPort}\r\n`, `Host: ${EVIL}\r\n`];
        for (const pair of [here + there, there + here]) {
          const wire = await ask(`${request} HTTP/1.1\r\n${pair}${auth}Content-Length: 0\r\n\r\n`);
          const status = wire.statuses[0] ?? 400;
          if (status < 400) faults.add(`${request} with two Hosts is answered ${status}`);
        }
        // Not believed, and so not found in any answer.
        const told = `X-Forwarded-Host: ${EVIL}\r\nForwarded: host=${EVIL}\r\nX-Original-URL: http://${EVIL}/\r\n`;
        const wire = await ask(
          `${request.replace('POST', 'GET')} HTTP/1.1\r\n${here}${told}Accept: text/html\r\n\r\n`,
        );
        if (wire.received.includes(EVIL)) faults.add(`${request} repeats what X-Forwarded-Host says`);
      }
      for (const name of [`127.0.0.1:${opsPort}`, `localhost:${opsPort}`]) {
        const wire = await ask(`GET /api/status HTTP/1.1\r\nHost: ${name}\r\n${auth}\r\n`);
        if (wire.statuses[0] !== 200) faults.add(`the owner at ${name} is answered ${wire.statuses[0]}`);
      }
    }
    counts.faults.push(...faults);
    return counts;
  },
};

/** A page about one delivery is for a person's eyes. */
const LARGEST_PAGE_BYTES = 1_048_576;
/** An answer of the API has the bytes whole: as text, where one may take six characters, and as base64. */
const MOST_PER_BYTE = 6 + 4 / 3;
/** Many times what a rejection takes to be seen in the list. */
const LISTED_MS = 30_000;
const LISTED_EVERY_MS = 50;

/** Bodies that grow when they are shown, or cost much to look into. */
function bodiesOf(bytes: number): Record<string, string> {
  const half = Math.floor(bytes / 2);
  const fill = (text: string, length = bytes) =>
    text.repeat(Math.ceil(length / text.length)).slice(0, length);
  return {
    'open brackets': fill('['),
    'nested arrays': fill('[', half) + fill(']', half),
    'nested objects': `${'{"a":'.repeat(Math.floor(bytes / 6))}1${'}'.repeat(Math.floor(bytes / 6))}`,
    'many numbers': `[${fill('1,', bytes - 3)}1]`.replace(',1]', ']').replace(',]', ',1]'),
    'many objects': `[${Array(Math.floor(bytes / 3) - 1)
      .fill('{}')
      .join(',')}]`,
    'many fields': `{${Array.from({ length: Math.floor(bytes / 12) }, (_, nth) => `"${nth}":1`).join(',')}}`,
    markup: fill('<&"'),
    'markup in a text': JSON.stringify({ a: fill('<', bytes - 8) }),
    'line ends': fill('\r\n'),
    escapes: `{"a":"${fill('\\u0041', bytes - 14)}"}`.replace(/\\u?0?0?4?"\}$/, '"}'),
    blanks: `{${fill(' ', bytes - 2)}}`,
    'control characters': fill('\u0001\u001b['),
    percents: fill('%7B%22'),
    base64: Buffer.from(fill('{"a":1}', half)).toString('base64'),
    dots: fill('1767225600.'),
  };
}

/** Odd bodies, mis-signed and signed, and then the pages and answers about each opened by an operator. */
const pages: Attack = {
  unit: 'bytes of each of 15 odd bodies, mis-signed and signed, then opened',
  size: { full: 16_384, short: 16_384 },
  async strike(target, size, length) {
    const counts = noCounts();
    const key = Buffer.from(target.key, 'hex');
    let largest = { bytes: 0, most: 0, what: '' };
    let slowest = { ms: 0, what: '' };
    /** `held`: bytes of the delivery that it is about. */
    const look = async (path: string, what: string, held = 0) => {
      const most = path.startsWith('/api') ? LARGEST_PAGE_BYTES + MOST_PER_BYTE * held : LARGEST_PAGE_BYTES;
      const headers = {
        authorization: `Bearer ${target.token}`,
        accept: path.startsWith('/api') ? '*/*' : 'text/html',
      };
      const { status, body, ms } = await get(target, path, { headers });
      if (status !== 200) counts.faults.push(`${path} answered ${status}`);
      if (body.length / most > largest.bytes / largest.most || largest.most === 0)
        largest = { bytes: body.length, most, what };
      if (ms > slowest.ms) slowest = { ms, what };
    };
    const cases = [
      ...Object.entries(bodiesOf(size)),
      // The largest that a delivery may be; only who signs can have one of these kept.
      ...(length === 'full'
        ? Object.entries(bodiesOf(1_000_000)).map(([what, body]) => [`${what}, 1 MB`, body])
        : []),
    ] as [string, string][];
    for (const [nth, [what, body]] of cases.entries()) {
      for (const [list, request] of [
        ['rejections', post(body, { [SIGNATURE]: forgedHeader(nth) })],
        ['quarantine', signed(body, key)],
      ] as const) {
        const before = await newestOf(target, list);
        // Of one sender no more than a few rejections are kept at once.
        const wire = open({ port: target.port, from: `127.0.21.${nth + 1}` });
        wire.socket.write(request);
        await wire.answers(1);
        wire.socket.destroy();
        count(counts, wire, 1);
        let newest = before;
        for (const until = performance.now() + LISTED_MS; newest === before && performance.now() < until; ) {
          await sleep(LISTED_EVERY_MS);
          newest = await newestOf(target, list);
        }
        if (newest === before || newest === undefined) {
          counts.faults.push(`${what} is not in ${list} after ${LISTED_MS / 1000} s`);
          continue;
        }
        await look(`/${list}/${newest}`, `page of ${what} in ${list}`);
        await look(`/api/${list}/${newest}`, `answer about ${what} in ${list}`, Buffer.byteLength(body));
      }
    }
    await look('/rejections', 'list of rejections');
    await look('/quarantine', 'list of quarantine');
    if (largest.bytes > largest.most) {
      counts.faults.push(`the ${largest.what} has ${largest.bytes} bytes, more than ${largest.most}`);
    }
    counts.note =
      `largest: ${(largest.bytes / 1024).toFixed(0)} KiB, the ${largest.what}; ` +
      `slowest: ${slowest.ms.toFixed(0)} ms, the ${slowest.what}`;
    return counts;
  },
};

async function newestOf(target: Target, list: string): Promise<unknown> {
  const { body } = await get(target, `/api/${list}?limit=1`);
  return (JSON.parse(body) as { items: { id: unknown }[] }).items?.[0]?.id;
}

export const OPERATOR_ATTACKS = { 'token-guessing': tokenGuessing, streams, hosts, pages };
