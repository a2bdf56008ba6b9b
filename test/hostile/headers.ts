import { setTimeout as sleep } from 'node:timers/promises';
import { type Attack, addCounts, noCounts } from './attack.ts';
import { noneServed } from './bodies.ts';
import { addresses, count, event, forgedHeader, open, post, SIGNATURE, write } from './wire.ts';

/** As long as a header may be, with some left for the others. */
const LONG = 15_000;
const FILLERS = [
  '\u00a0',
  ' ',
  '\t',
  ',',
  ';',
  '=',
  '"',
  '%',
  '0',
  'a=',
  '((',
  ', a',
  '/',
  '\u0085',
] as const;
const NAMES = [
  'Content-Encoding',
  'Content-Type',
  SIGNATURE,
  'Accept',
  'Accept-Encoding',
  'Authorization',
  'Connection',
  'Cookie',
  'Expect',
  'Forwarded',
  'If-None-Match',
  'Origin',
  'Range',
  'Referer',
  'X-CSRF-Token',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'X-Forwarded-Proto',
] as const;

/** Values that make a careless pattern look again and again; Node leaves a no-break space where it would trim a space. */
const headerValues: Attack = {
  unit: `requests pipelined for each of ${FILLERS.length * NAMES.length} headers of 15 kB, to both listeners`,
  size: { full: 20, short: 2 },
  async strike({ port, opsPort }, size) {
    const counts = noCounts();
    const [one, two] = addresses(6, 2);
    for (const name of NAMES) {
      await Promise.all(
        FILLERS.map(async (filler) => {
          const before = name === 'Authorization' ? 'Bearer ' : 'x';
          const value = `${before}${filler.repeat(LONG / filler.length)}x`;
          const wires = [open({ port, from: one! }), open({ port: opsPort, from: two! })];
          await write(wires[0]!, Buffer.concat(Array(size).fill(post('{}', { [name]: value }))));
          const get = `GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n${name}: ${value}\r\n\r\n`;
          await write(wires[1]!, get.repeat(size));
          for (const wire of wires) {
            wire.socket.end();
            await Promise.race([wire.answers(size), sleep(20_000, null, { ref: false })]);
            wire.socket.destroy();
            count(counts, wire, size);
          }
        }),
      );
    }
    return noneServed(counts);
  },
};

/** How long what was pipelined may lie there before the one who sent it goes. */
const DEAF_MS = 3_000;

/** Requests without end on connections that are never read: the answers are the service's to keep, or not. */
const pipelining: Attack = {
  unit: 'requests on each of 8 connections, no answer read',
  size: { full: 20_000, short: 1_000 },
  async strike({ port, opsPort }, size, length) {
    const counts = noCounts();
    const forged = post(event('forged'), { [SIGNATURE]: forgedHeader() });
    const requests = [
      [port, Buffer.from('GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
      [port, Buffer.from('GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
      [port, post('')],
      [port, forged],
      [opsPort, Buffer.from('GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
      [opsPort, Buffer.from('GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
      [opsPort, Buffer.from('GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
      [opsPort, Buffer.from('GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')],
    ] as const;
    const from = addresses(7, requests.length);
    const batch = 500;
    await Promise.all(
      requests.map(async ([where, bytes], nth) => {
        const wire = open({ port: where, from: from[nth]!, deaf: true });
        const many = Buffer.concat(Array(batch).fill(bytes));
        const over = sleep(length === 'full' ? DEAF_MS : DEAF_MS / 3);
        let sent = 0;
        const send = async () => {
          for (; sent < size && !wire.socket.destroyed; sent += batch) await write(wire, many);
        };
        await Promise.all([over, Promise.race([over, send()])]);
        wire.socket.destroy();
        count(counts, wire, sent);
      }),
    );
    // The same again from somebody who reads: thousands in one piece, each answered.
    const reader = open({ port, from: '127.0.7.20' });
    const readSize = size / 4;
    await write(reader, Buffer.concat(Array(readSize).fill(forged)));
    await Promise.race([reader.answers(readSize), reader.ended]);
    reader.socket.destroy();
    count(counts, reader, readSize);
    return noneServed(counts);
  },
};

/** What would be answered 200, were it taken for a request of its own. */
const INNER = 'GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n';
const outer = (...lines: string[]) =>
  `${['POST /webhooks HTTP/1.1', 'Host: 127.0.0.1', ...lines].join('\r\n')}\r\n\r\n`;
const hidden = (length: string, ...more: string[]) => outer(`Content-Length: ${length}`, ...more) + INNER;
const chunked = (...lines: string[]) => `${outer(...lines)}0\r\n\r\n${INNER}`;
const whole = String(INNER.length);

const TWO_HOSTS = 'two hosts';

/** Forms over which two programs may disagree where a request ends. Each holds a second one that must not be found. */
const FORMS: Readonly<Record<string, string>> = {
  'length and chunks': chunked('Content-Length: 5', 'Transfer-Encoding: chunked'),
  'chunks and length': chunked('Transfer-Encoding: chunked', `Content-Length: ${INNER.length + 5}`),
  'an encoding unknown': hidden('0', 'Transfer-Encoding: xchunked'),
  'an encoding unknown, chunked': chunked('Transfer-Encoding: gzip, chunked', 'Content-Length: 3'),
  'chunked, identity': hidden('0', 'Transfer-Encoding: chunked, identity'),
  'chunked twice': chunked('Transfer-Encoding: chunked', 'Transfer-Encoding: identity'),
  'a space before the colon': chunked('Transfer-Encoding : chunked', 'Content-Length: 5'),
  'a tab before the colon': chunked('Transfer-Encoding\t: chunked', 'Content-Length: 5'),
  'a vertical tab': hidden('0', 'Transfer-Encoding: \u000bchunked'),
  'a no-break space': hidden('0', 'Transfer-Encoding: \u00a0chunked'),
  'chunked in quotes': hidden('0', 'Transfer-Encoding: "chunked"'),
  'a folded header': chunked('Transfer-Encoding:\r\n chunked', 'Content-Length: 5'),
  'a folded length': hidden(`0\r\n ${whole}`),
  'a first line folded': `POST /webhooks HTTP/1.1\r\n Host: 127.0.0.1\r\nContent-Length: 0\r\n\r\n${INNER}`,
  'two lengths': hidden('0', `Content-Length: ${whole}`),
  'two equal lengths': hidden(whole, `Content-Length: ${whole}`),
  'a list of lengths': hidden(`0, ${whole}`),
  'a length with plus': hidden(`+${whole}`),
  'a length below zero': hidden('-1'),
  'a length in hex': hidden('0x0'),
  'a length with an exponent': hidden('0e1'),
  'a length with a space': hidden('0 0'),
  'a length of nothing': hidden(''),
  'a length without end': hidden('99999999999999999999999'),
  'line feeds alone': hidden('0').replaceAll('\r\n', '\n'),
  'carriage returns alone': hidden('0').replaceAll('\r\n', '\r'),
  'a line feed in a value': hidden('0', 'X-A: a\nContent-Length: 1'),
  'a carriage return in a value': hidden('0', 'X-A: a\rContent-Length: 1'),
  'NUL in a value': hidden('0', 'X-A: a\u0000b'),
  'NUL in a name': hidden('0', 'X-\u0000A: b'),
  'NUL in the path': hidden('0').replace('/webhooks', '/webhooks\u0000'),
  'a space in a name': hidden('0', 'X A: b'),
  'no name': hidden('0', ': b'),
  [TWO_HOSTS]: outer('Host: 127.0.0.2', 'Content-Length: 0'),
  'no host': outer('Content-Length: 0').replace('Host: 127.0.0.1\r\n', ''),
  'a host with a space': outer('Content-Length: 0').replace('127.0.0.1', 'a b'),
  'a host with a user': outer('Content-Length: 0').replace('127.0.0.1', 'a@b'),
  'a version of two digits': hidden('0').replace('HTTP/1.1', 'HTTP/1.10'),
  'a version to come': hidden('0').replace('HTTP/1.1', 'HTTP/2.0'),
  'a lower-case version': hidden('0').replace('HTTP/1.1', 'http/1.1'),
  'no version': `POST /webhooks\r\n\r\n${INNER}`,
  'chunks under version 1.0': chunked('Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0'),
  'the preface of version 2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${INNER}`,
  'a chunk of a sign': `${outer('Transfer-Encoding: chunked')}-1\r\n${INNER}`,
  'a chunk in 0x': `${outer('Transfer-Encoding: chunked')}0x0\r\n\r\n${INNER}`,
  'a chunk beyond 64 bits': `${outer('Transfer-Encoding: chunked')}10000000000000000\r\n${INNER}`,
  'a chunk without its end': `${outer('Transfer-Encoding: chunked')}1\r\nab0\r\n\r\n${INNER}`,
  'chunks and line feeds': `${outer('Transfer-Encoding: chunked')}0\n\n${INNER}`,
  'an extension with a line feed': `${outer('Transfer-Encoding: chunked')}0;a\nb\r\n\r\n${INNER}`,
  'extensions without end': `${outer('Transfer-Encoding: chunked')}1;${'a'.repeat(100_000)}\r\na\r\n0\r\n\r\n${INNER}`,
  'a trailer that is a length': `${outer('Transfer-Encoding: chunked')}0\r\nContent-Length : 9\r\n\r\n${INNER}`,
  'trailers without end': `${outer('Transfer-Encoding: chunked')}0\r\n${'X-T: a\r\n'.repeat(10_000)}\r\n${INNER}`,
  'headers without number': hidden('0', ...Array(5_000).fill('X: y')),
  'a header without end': hidden('0', `X: ${'y'.repeat(100_000)}`),
  'a path without end': hidden('0').replace('/webhooks', `/${'y'.repeat(100_000)}`),
  'an upgrade to version 2': hidden(
    '0',
    'Connection: Upgrade, HTTP2-Settings',
    'Upgrade: h2c',
    'HTTP2-Settings: ',
  ),
  'a tunnel': `CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n${INNER}`,
};

const smuggling: Attack = {
  unit: `rounds of ${Object.keys(FORMS).length} forms, at both listeners`,
  size: { full: 20, short: 1 },
  async strike({ port, opsPort }, size) {
    const counts = noCounts();
    const [from] = addresses(8, 1);
    const seen = new Set<string>();
    for (let round = 0; round < size; round++) {
      await Promise.all(
        Object.entries(FORMS).flatMap(([form, bytes]) =>
          [port, opsPort].map(async (where) => {
            const wire = open({ port: where, from: from!, keep: true });
            await write(wire, bytes);
            wire.socket.end();
            await Promise.race([wire.ended, sleep(20_000, null, { ref: false })]);
            const open_ = !wire.socket.destroyed;
            wire.socket.destroy();
            const one = noCounts();
            count(one, wire, 1);
            const final = wire.statuses.filter((status) => status >= 200);
            if (open_) one.faults.push('the connection stays open');
            if (final.some((status) => status < 300)) one.faults.push('answered 2xx');
            if (form === TWO_HOSTS && final[0] !== 400) one.faults.push('not answered 400');
            if (final.length > 1) one.faults.push(`${final.length} answers`);
            one.faults = one.faults.map((fault) => `${form}: ${fault} (${wire.statuses.join(', ')})`);
            one.faults = one.faults.filter((fault) => !seen.has(fault));
            for (const fault of one.faults) seen.add(fault);
            addCounts(counts, one);
          }),
        ),
      );
    }
    return counts;
  },
};

export const HEADER_ATTACKS = { 'header-values': headerValues, pipelining, smuggling };
